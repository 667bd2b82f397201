"""The labels of rows as they are stored: names of classes as ids, one in a row or a list of them. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.separated import Separated, split_texts
from shardmill.transforms.columns.text_values import misfit, parse_values

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ReadLabels:
    """A label of some rows.

    Attributes:
      values: ids or numbers, or lists of them: anything where a row is `bad`.
      bad: the rows whose label is none.
      reason: why that of such a row is none.
      repeated: int64, shape (rows,): how often a row names a class again, which counts once; 0 where it has one value.
      lengths: int64, shape (rows,), of the lists as they stand in the input.
    """

    values: pa.Array
    bad: Flags
    reason: Callable[[int], str]
    repeated: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


def outside(ids: pa.Array, classes: int) -> Flags:
    """The rows that hold an id of no class, or, of lists, any: bool, shape (rows,).

    Args:
      ids: int64, or lists of it.
      classes: how many there are.
    """
    if pa.types.is_large_list(ids.type):
        wrong, rows = outside(ids.flatten(), classes), ids.value_parent_indices().to_numpy()
        return np.bincount(rows, weights=wrong, minlength=len(ids)) > 0
    values = ids.fill_null(0).to_numpy(zero_copy_only=False)
    return (values < 0) | (values >= classes)


def read_labels(column: pa.Array, separated: Separated | None, classes: ClassNames | None) -> ReadLabels:
    """The labels in a column.

    Args:
      column: large_binary, or lists of it.
      separated: how the texts of a column are split; None where they are not.
      classes: what names mean; None where the values are numbers.
    """
    lists = column if separated is None else split_texts(column, separated.separator)
    none = np.zeros(len(lists), np.int64)
    if not pa.types.is_large_list(lists.type):
        assert classes is not None
        ids, unknown = _ids(lists, classes)
        return ReadLabels(ids, unknown, lambda row: _not_in(lists[row], classes), none, none + 1)
    items, rows = lists.flatten(), lists.value_parent_indices().to_numpy()
    lengths = np.bincount(rows, minlength=len(lists))
    if classes is None:
        assert separated is not None
        texts, dtype = items.cast(pa.binary()), separated.dtype
        values, misfits = parse_values(texts, dtype)
        wrong = np.zeros(len(items), bool)
        wrong[misfits] = True
        kept = np.ones(len(items), bool)

        def reason(item: int) -> str:
            return misfit(texts[item].as_py(), dtype)

    else:
        known = classes
        values, wrong = _ids(items, known)
        kept = np.zeros(len(items), bool)
        codes = rows * (len(known) + 1) + values.fill_null(len(known)).to_numpy()
        kept[np.unique(codes, return_index=True)[1]] = True

        def reason(item: int) -> str:
            return _not_in(items[item], known)

    first = {int(rows[item]): int(item) for item in np.flatnonzero(wrong)[::-1]}
    bad = np.zeros(len(lists), bool)
    bad[list(first)] = True
    left = np.bincount(rows[kept], minlength=len(lists))
    offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(left))))
    values = values.filter(pa.array(kept)).fill_null(0)  # of rows that are bad
    whole = pa.LargeListArray.from_arrays(offsets, values)
    return ReadLabels(whole, bad, lambda row: reason(first[row]), lengths - left, lengths)


def _ids(names: pa.Array, classes: ClassNames) -> tuple[pa.Array, Flags]:
    """The id of each name, null for one that is no class or is missing; and which are none."""
    encoded = names.dictionary_encode()
    known = pa.array([classes.id(as_text(name)) for name in encoded.dictionary.to_pylist()], pa.int64())
    ids = known.take(encoded.indices)
    return ids, ids.is_null().to_numpy(zero_copy_only=False)


def _not_in(name: pa.Scalar, classes: ClassNames) -> str:
    if not name.as_py():
        return "a class without a name; expected names, or an empty list"
    return f"class {as_text(name.as_py())!r} is not in {classes.source}"
