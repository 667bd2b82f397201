"""How large a run is: as a shard reads a slice of every run, slices of runs of one size would grow with the square of
the data."""

from collections.abc import Callable
from dataclasses import dataclass

MOST_SLICES = 10**7  # of all shards: what a shuffle of their descriptions takes in a minute or two
MOST_BYTES = 1 << 30  # of a run, which waits on its worker's disk until it is whole
_LEAST_RUNS = 64  # so that there is something to do for as many threads of workers
_LEAST_SLICE, _LEAST_REMOTE_SLICE = 8 << 10, 64 << 10  # bytes, of which a request to a store brings at least so many


@dataclass(frozen=True)
class RunSize:
    """The bytes of input that become one run, by those of all of it.

    Attributes:
      block_size: bytes that are read at once; a run is of so many at least.
      shards: about how many there will be, by the bytes of the input.
      remote: whether runs lie in an object store.
    """

    block_size: int
    shards: Callable[[int], int]
    remote: bool = False

    def __call__(self, total: int) -> int:
        """The bytes of a run, where the input has `total`.

        As many that a slice of a run is worth a request, and that there are not too many slices; but not so many that
        too few workers have something to do.
        """
        shards = max(1, self.shards(total))
        least = _LEAST_REMOTE_SLICE if self.remote else _LEAST_SLICE
        wanted = max(least * shards, -(-total // max(1, MOST_SLICES // shards)))
        return max(self.block_size, min(wanted, total // _LEAST_RUNS, MOST_BYTES))
