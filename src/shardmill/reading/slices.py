"""Parts of a data set: slices of splits in TFDS's syntax, and their division among workers."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from shardmill.errors import UserError
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry

_TERM = re.compile(r"([\w-]+)(?:\[([\w%:.-]+)\])?")
_BOUNDARY = re.compile(r"(?:(-?[\d_.]+)(%|shard)?)?")
_SYNTAX = "expected for example train[:10%], train[1000:2000], train[:2shard] or train+test, as in TFDS"


@dataclass(frozen=True, slots=True)
class ShardSlice:
    """Successive examples of a shard: those from `start` to before `stop`."""

    shard: ShardEntry
    start: int
    stop: int

    @property
    def examples(self) -> int:
        """Return the number of examples in the slice."""
        return self.stop - self.start

    @property
    def is_whole(self) -> bool:
        """Return True if the slice is the whole shard."""
        return self.examples == self.shard.examples


@dataclass(frozen=True, slots=True)
class Selection:
    """The examples that a text such as `train[:10%]+test` selects, in order."""

    text: str
    splits: tuple[str, ...]  # names of the splits
    slices: tuple[ShardSlice, ...]

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """Return the shards of the slices, each once."""
        return tuple(dict.fromkeys(piece.shard for piece in self.slices))

    @property
    def examples(self) -> int:
        """Return the number of selected examples."""
        return sum(piece.examples for piece in self.slices)


def select_examples(manifest: Manifest, text: str) -> Selection:
    """Return the examples that `text` selects, rounded as TFDS rounds.

    Raise a UserError if a split does not exist, or TFDS would refuse the text.
    """
    splits = {split.name: split for split in manifest.splits}
    if text in splits:
        names = [text]
        slices = [ShardSlice(shard, 0, shard.examples) for shard in splits[text].shards]
    else:
        names, slices = [], []
        for term in re.split(r"\s*\+\s*", text):
            for split, start, stop in _parse_term(manifest, term, text):
                names.append(split.name)
                slices += _slice_shards(split, start, stop)
        if "[" in text and not slices:
            raise UserError(f"split {text!r} selects no example of {manifest.name} {manifest.version}")
    return Selection(text, tuple(dict.fromkeys(names)), tuple(slices))


def _slice_shards(split: SplitEntry, start: int, stop: int) -> Iterator[ShardSlice]:
    first = 0  # example of the shard in the split
    for shard in split.shards:
        low, high = max(start - first, 0), min(stop - first, shard.examples)
        if low < high:
            yield ShardSlice(shard, low, high)
        first += shard.examples


def _parse_term(manifest: Manifest, term: str, text: str) -> Iterator[tuple[SplitEntry, int, int]]:
    """Yield the splits of a term such as `train[:10%]`, each with the first example and the end of its slice."""
    found = _TERM.fullmatch(term)
    if found is None:
        raise UserError(f"split {text!r} is not understood; {_SYNTAX}")
    name, selector = found.groups()
    known = {split.name: split for split in manifest.splits}
    if name == "all" and "all" not in known:
        if selector is not None:
            raise UserError(f"split {text!r}: all takes no slice; give one to each split; {_SYNTAX}")
        yield from ((split, 0, split.examples) for split in manifest.splits)
        return
    try:
        split = manifest.split(name)
        start, stop = (0, split.examples) if selector is None else _parse_slice(split, selector)
    except KeyError as error:
        raise UserError(error.args[0]) from None
    except ValueError as error:
        raise UserError(f"split {text!r}: {error}") from None
    yield split, start, stop


def _parse_slice(split: SplitEntry, selector: str) -> tuple[int, int]:
    """Return the first example and the end of a slice such as `:10%`; raise a ValueError if TFDS would refuse it."""
    matches = [_BOUNDARY.fullmatch(boundary) for boundary in selector.split(":")]
    boundaries = [match.groups() for match in matches if match is not None]
    if len(boundaries) != len(matches) or len(matches) > 2 or not any(value for value, _ in boundaries):
        raise ValueError(f"{selector!r} is not understood; {_SYNTAX}")
    unit = next((unit for _, unit in boundaries if unit), "")
    if len(boundaries) == 1 and unit != "shard":
        raise ValueError(f"{selector!r} is one boundary; expected two, such as {selector}: or :{selector}")
    try:
        numbers = [None if value is None else float(value) if unit == "%" else int(value) for value, _ in boundaries]
    except ValueError:
        raise ValueError(f"{selector!r} has a boundary that is not a whole number or a percentage") from None
    start, stop = numbers if len(numbers) == 2 else (numbers[0], int(numbers[0] or 0) + 1)
    if unit == "%" and max(abs(start or 0), abs(stop or 0)) > 100:
        raise ValueError(f"{selector!r} has a percentage that is not in -100 to 100")
    size = split.examples
    # The arithmetic of TFDS, whose rounding and negative shards are kept
    if unit == "%":
        first = round((start or 0) * size / 100.0)
        end = size if stop is None else round(stop * size / 100.0)
    elif unit == "shard":
        lengths = [shard.examples for shard in split.shards]
        first = 0 if start is None else sum(lengths[: int(start)])
        if stop is not None and stop <= 0:
            stop += len(lengths)
        end = size if stop is None else sum(lengths[: int(stop)])
    else:
        first, end = int(start or 0), size if stop is None else int(stop)
    if max(abs(first), abs(end)) > size:
        raise ValueError(f"{selector!r} reaches beyond the {size:,} examples of {split.name}")
    first, end = first + size * (first < 0), end + size * (end < 0)
    if first > end:
        raise ValueError(f"{selector!r} ends at example {end:,}, before it begins at {first:,}")
    return first, end


@dataclass(frozen=True, slots=True)
class Part:
    """One worker's part: every `step`-th example of `slices`, in order, starting with example `first`."""

    slices: tuple[ShardSlice, ...]
    first: int = 0
    step: int = 1

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """Return the shards to read, each once."""
        return tuple(dict.fromkeys(piece.shard for piece in self.slices))

    @property
    def has_whole_shards(self) -> bool:
        """Return True if all slices are whole shards."""
        return all(piece.is_whole for piece in self.slices)

    @property
    def examples(self) -> int:
        """Return the number of examples in the part."""
        total = sum(piece.examples for piece in self.slices)
        return max(total - self.first + self.step - 1, 0) // self.step

    @property
    def mean_example_bytes(self) -> float:
        """Return the mean size of an example on disk, in bytes."""
        return sum(shard.size_bytes for shard in self.shards) / max(sum(shard.examples for shard in self.shards), 1)


_UNEQUAL = 0.1  # of the smallest part: by how many examples the largest may exceed it without a warning


def select_part(selection: Selection, num_workers: int, worker_index: int, equal_parts: bool = False) -> Part:
    """Return the part that a worker reads; the parts of all workers are disjoint and cover the selection.

    A part is every num_workers-th shard, with a warning if parts differ much in their examples. With `equal_parts`, or,
    with a warning, if there are fewer shards than workers, it is every num_workers-th example: each worker then reads
    all shards. Raise a UserError if there is no such worker.
    """
    if num_workers < 1:
        raise UserError(f"num_workers is {num_workers}; expected at least 1")
    if not 0 <= worker_index < num_workers:
        raise UserError(
            f"worker_index is {worker_index}; expected 0 to {num_workers - 1}, for num_workers is {num_workers}"
        )
    slices = selection.slices
    by_shard = num_workers <= len(slices) and not equal_parts
    message = ""
    if by_shard:
        parts = [Part(slices[worker::num_workers]) for worker in range(num_workers)]
        counts = [part.examples for part in parts]
        if max(counts) - min(counts) > max(_UNEQUAL * min(counts), 1):
            message = (
                f"the largest part has {max(counts):,} examples, the smallest {min(counts):,}, and that of worker"
                f" {worker_index} {counts[worker_index]:,}; equal_parts=True divides examples instead of shards;"
                f" a --num_shards that is a multiple of {num_workers} makes parts equal, too"
            )
    elif selection.examples and not equal_parts:
        message = (
            f"each reads all of them and keeps one of {num_workers} examples; with --num_shards {num_workers} or more,"
            " each would read its own"
        )
    if message:
        warnings.warn(
            f"split {selection.text!r} has {len(slices)} shards for {num_workers} workers: {message}", stacklevel=3
        )
    return parts[worker_index] if by_shard else Part(slices, worker_index, num_workers)
