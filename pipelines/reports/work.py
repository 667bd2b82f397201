"""What a job is to do, in figures and in words: for --dry_run, which says it before a cluster is paid for. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from shardmill.pipelines.reports.figures import human_size

SHARDS_A_SLOT = 4  # at least, or slots stand idle while the last shards are written: docs/clusters.md
# Requests to a store, as tests/end_to_end/object_stores/test_dry_run.py counts them: leases, metadata files and
# publication; each shard, which is uploaded, looked at and renamed; each run, with its keys and what its records hold
_A_JOB, _A_SHARD, _A_RUN = 75, 7, 11


@dataclass(frozen=True, slots=True)
class Work:
    """What steps are given.

    Attributes:
      tasks: parts of the input, each of which a worker does alone.
      shards: files that are written.
      reads: requests for the input, where it lies in a store.
      runs: sorted runs of records between; none of whole files, which go into their shards at once.
      size_bytes: of what is written, about; None where only the input's is known.
      is_remote: whether the input, and whether the output, lies in a store.
    """

    tasks: int
    shards: int
    reads: int
    runs: int = 0
    size_bytes: int | None = None
    is_remote: tuple[bool, bool] = (False, False)

    @property
    def slices(self) -> int:
        """What shards read of runs: one of each at most."""
        return self.runs * self.shards

    @property
    def requests(self) -> int:
        """To stores, about."""
        read, written = self.is_remote
        runs = self.runs * _A_RUN + self.slices
        return self.reads * read + (_A_JOB + self.shards * _A_SHARD + runs) * written

    def sentences(self, slots: int) -> Iterator[str]:
        """The lines of --dry_run, where so many slots of workers do a step each at once; 0 if that is not known."""
        about = "" if self.size_bytes is not None else "about "
        between = f", {self.runs:,} run{'' if self.runs == 1 else 's'}, at most {self.slices:,} slices"
        yield (
            f"Work: {self.tasks:,} task{'' if self.tasks == 1 else 's'}{between if self.runs else ''},"
            f" {about}{self.shards:,} shard{'' if self.shards == 1 else 's'}"
        )
        if self.size_bytes is None:
            yield "Temporary space: as large as all shards, for runs"
        else:
            yield f"Temporary space: the shards themselves, about {human_size(self.size_bytes)}"
        if any(self.is_remote):
            yield f"Requests to stores: about {self.requests:,}"
        if slots > 1 and self.shards < slots * SHARDS_A_SLOT:  # one alone is never idle for lack of shards
            yield (
                f"NOTE: {about}{self.shards:,} shard{'' if self.shards == 1 else 's'} for {slots:,} workers at once:"
                f" expected {slots * SHARDS_A_SLOT:,} at least (--num_shards, or a smaller --shard_size), or some stand"
                " idle while the last shards are written"
            )
