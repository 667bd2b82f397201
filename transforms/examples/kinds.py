"""Which kinds the features of existing Examples are, record by record: no reader takes a feature that is of two. Pure.

TensorFlow's parsers refuse a record whose list is of another kind than the schema's, be the list empty; a feature of no
kind is missing to them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.features.feature import DType
from shardmill.transforms.examples.decode import KINDS, DecodedPart

_MIXED_SHOWN = 3  # features, of those of several kinds


@dataclass(frozen=True, slots=True)
class Held:
    """The records that hold a feature as one kind: how many, and the file and the number of the first."""

    records: int
    first: tuple[str, int]


Kinds = Mapping[str, Mapping[DType, Held]]  # by feature


def kinds_of(parts: Iterable[DecodedPart], files: pa.Array, numbers: np.ndarray) -> Kinds:
    """The kinds of each feature.

    Args:
      parts: some records, decoded.
      files: the names of the records' files.
      numbers: of the records in their files.
    """
    rank = _ranks(files, numbers)
    kinds: dict[str, dict[DType, Held]] = {}
    for part in parts:
        for name, kind, there in _columns(part):
            first = int(there[rank[there].argmin()])
            _add(kinds.setdefault(name, {}), kind, Held(len(there), (files[first].as_py(), int(numbers[first]))))
    return kinds


def merge_kinds(one: Kinds, other: Kinds) -> Kinds:
    """What both say; associative and commutative."""
    merged = {name: dict(held) for name, held in one.items()}
    for name, kinds in other.items():
        for kind, held in kinds.items():
            _add(merged.setdefault(name, {}), kind, held)
    return merged


def _add(kinds: dict[DType, Held], kind: DType, held: Held) -> None:
    known = kinds.get(kind)
    kinds[kind] = Held(known.records + held.records, min(known.first, held.first)) if known else held


def most_frequent(kinds: Kinds) -> dict[str, DType]:
    """The kind of each feature in most records; of two that are in equally many, the first by name."""
    return {name: min(held, key=lambda kind: (-held[kind].records, kind)) for name, held in kinds.items()}


def misfits(parts: Iterable[DecodedPart], wanted: Mapping[str, DType]) -> dict[int, str]:
    """Why a record does not fit the kinds `wanted`, by its row; a feature without one fits."""
    problems: dict[int, str] = {}
    for part in parts:
        for name, kind, there in _columns(part):
            if wanted.get(name, kind) != kind:
                for row in there.tolist():
                    problems.setdefault(row, f"feature {name!r} holds {kind}; expected {wanted[name]}")
    return problems


def mixed_kinds(kinds: Kinds) -> str:
    """In words, the features that are of several kinds; "" if there are none."""
    mixed = [_in_words(name, held) for name, held in sorted(kinds.items()) if len(held) > 1]
    more = len(mixed) - _MIXED_SHOWN
    left_out = [f"and {more:,} more feature{'' if more == 1 else 's'}"] if more > 0 else []
    return "; ".join([*mixed[:_MIXED_SHOWN], *left_out])


def _in_words(name: str, kinds: Mapping[DType, Held]) -> str:
    ordered = sorted(kinds.items(), key=lambda item: (-item[1].records, item[0]))
    parts = [
        f"{kind} in {held.records:,} record{'' if held.records == 1 else 's'} (first: record {held.first[1]:,} of"
        f" {held.first[0]})"
        for kind, held in ordered
    ]
    return f"feature {name!r} is {', '.join(parts[:-1])} and {parts[-1]}"


def _columns(part: DecodedPart) -> Iterator[tuple[str, DType, np.ndarray]]:
    """The features that have a kind in some record of a part: name, kind, rows."""
    if part.features is None:
        return
    for name, array in zip(part.features.schema.names, part.features.columns):
        if not pa.types.is_null(array.type) and array.null_count < len(array):
            yield (
                name,
                KINDS[array.type.value_type],
                part.start + np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)),
            )


def _ranks(files: pa.Array, numbers: np.ndarray) -> np.ndarray:
    """The rank of each record by file and number: int64, shape (records,)."""
    encoded = files if pa.types.is_dictionary(files.type) else files.dictionary_encode()
    names: Sequence[str] = encoded.dictionary.to_pylist()
    place = {name: rank for rank, name in enumerate(sorted(set(names)))}
    order = np.lexsort((numbers, np.array([place[name] for name in names], np.int64)[encoded.indices.to_numpy()]))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
