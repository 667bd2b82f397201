"""The sizes of files that rows name, and the types of the rows' columns."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.nested import ColumnError
from shardmill.transforms.columns.types import ColumnType, merge_types, value_type
from shardmill.transforms.inputs.companions import Companion, paths_of
from shardmill.transforms.inputs.found import FOUND
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed
from shardmill.transforms.stores.identity import identity_of, identity_of_all
from shardmill.transforms.stores.links import LinksInside

NO_SUCH_FILE = "no such file"
_PLAIN = 1 << 62  # integers nearer to 0 need no look at their size


def measure(
    batch: pa.RecordBatch,
    root: str,
    textual: bool,
    allow_outside: bool = False,
    map_: Callable[..., Iterable[tuple[int, int | None] | str]] = map,
    identities: bool = False,
    companions: Sequence[Companion] = (),
) -> tuple[pa.RecordBatch, dict[str, ColumnType], list[Reject]]:
    """A manifest's rows with the sizes of their files, the types of their columns, and a Reject for each that has none.

    Args:
      batch: FOUND, with sizes of 0, and no identities; where companions lie in a folder, which was listed, with
        those of the companions.
      root: the folder of the manifest.
      textual: whether the values of its columns are text.
      allow_outside: whether symbolic links may lead out of that folder.
      map_: looks up sizes where any is a request; local ones take microseconds.
      identities: whether the files' identities are set too.
      companions: further files of each row; its size is that of all.
    """
    paths = [uri or storage.join(root, name) for name, uri in zip(*(batch[i].to_pylist() for i in (0, 2)), strict=True)]
    size_of = partial(
        _size, identities=identities, inside=None if allow_outside or not storage.is_local(root) else LinksInside(root)
    )
    beside = paths_of(batch)
    in_folder = any(not item.column for item in companions)
    every = paths if in_folder else [*paths, *(path for row in beside for path in row)]
    looked_at = iter(list(map(size_of, every) if all(map(storage.is_local, every)) else map_(size_of, every)))
    sizes = [next(looked_at) for _ in paths]
    if companions:
        listed = zip(*(batch[name].to_pylist() for name in ("size", "identity")), strict=True)
        others: Iterable[list[tuple[int, int | None] | str]]
        others = ([known] for known in listed) if in_folder else ([next(looked_at) for _ in row] for row in beside)
        rows = zip(sizes, beside, others, strict=True)
        sizes = [_together(found, companions, row, known, root) for found, row, known in rows]
    types = _RowTypes(textual)
    rejects: list[Reject] = []
    keep = []
    columns = batch["columns"].to_pylist()
    for row, found in enumerate(sizes):
        problem = found if isinstance(found, str) else None
        if problem is None:
            try:
                types.add(json.loads(columns[row]))
            except ColumnError as error:
                problem = str(error)
        if problem is not None:
            rejects.append(Reject(batch["name"][row].as_py(), batch["line"][row].as_py(), "index", problem))
        keep.append(problem is None)
    known = [(0, None) if isinstance(found, str) else found for found in sizes]
    batch = batch.set_column(1, FOUND.field("size"), pa.array([size for size, _ in known], pa.int64()))
    if identities:
        made = pa.array([identity for _, identity in known], pa.uint64())
        batch = batch.set_column(FOUND.get_field_index("identity"), FOUND.field("identity"), made)
    return batch.filter(pa.array(keep, pa.bool_())), types.merged(), rejects


def _together(
    found: tuple[int, int | None] | str,
    companions: Sequence[Companion],
    paths: Sequence[str],
    others: Sequence[tuple[int, int | None] | str],
    root: str,
) -> tuple[int, int | None] | str:
    """Size and identity of a row's file and its companions, or why one has none."""
    sides = []
    for item, path, other in zip(companions, paths, others, strict=True):
        if isinstance(other, str):
            there = f": {path.removeprefix(storage.join(root, ''))}" if other == NO_SUCH_FILE else ""
            return found if isinstance(found, str) else f"{item.what}: {other}{there}"
        sides.append((path, *other))
    if isinstance(found, str):
        return found
    size, identity = found
    together = identity_of_all(identity, [(path, of_other) for path, _, of_other in sides])
    return size + sum(more for _, more, _ in sides), together


def missing_of(rejects: Sequence[Reject], companions: Sequence[Companion]) -> dict[str, tuple[int, str]]:
    """How many files are not there, and the first of them, of each kind that rows name."""
    names = {NO_SUCH_FILE: [reject.source for reject in rejects if reject.reason == NO_SUCH_FILE]}
    for item in companions:
        before = f"{item.what}: {NO_SUCH_FILE}: "
        names[item.what] = [
            reject.reason.removeprefix(before) for reject in rejects if reject.reason.startswith(before)
        ]
    return {kind: (len(found), min(found)) for kind, found in names.items() if found}


class _RowTypes:
    """The types of the columns of rows; of those that hold plain integers alone, which are many, it is counted how many
    have the same names."""

    def __init__(self, textual: bool) -> None:
        self._textual = textual
        self._types: dict[str, ColumnType] = {}
        self._plain: Counter[tuple[str, ...]] = Counter()

    def add(self, columns: dict[str, Any]) -> None:
        """Add a row; raises ColumnError where its values have no type."""
        if not self._textual and all(type(value) is int and -_PLAIN < value < _PLAIN for value in columns.values()):
            self._plain[tuple(columns)] += 1
        else:
            self._types = merge_types(self._types, _row_types(columns, self._textual))

    def merged(self) -> dict[str, ColumnType]:
        """Those of all rows."""
        for names, rows in self._plain.items():
            one = _row_types(dict.fromkeys(names, 0), self._textual)
            self._types = merge_types(self._types, {name: replace(of, present=rows) for name, of in one.items()})
        self._plain.clear()
        return self._types


def _row_types(columns: dict[str, Any], textual: bool) -> dict[str, ColumnType]:
    types = {}
    for name, value in columns.items():
        try:
            column = value_type(value, textual)
        except ColumnError as error:
            raise ColumnError(f"column {name!r}: {error}") from None
        if column is not None:
            types[name] = column
    return types


def _size(path: str, inside: LinksInside | None, identities: bool) -> tuple[int, int | None] | str:
    """Size and, if asked for, identity of the file at `path`, or why it has none.

    Raises:
      OSError: a store failed; a runner tries again.
    """
    if inside is not None and storage.is_local(path) and not inside(path):
        return "a symbolic link leads outside the manifest's folder; give --allow_outside if that is meant"
    try:
        found = storage.stat_file(path)
        identity = identity_of(found.size_bytes, found.stamp, found.modified) if identities else None
        return found.size_bytes, identity
    except FileNotFoundError:
        return NO_SUCH_FILE
    except OSError as error:
        raise_if_store_failed(error, path)
        return f"cannot be read: {error_text(error)}"
