"""The rows of manifests, one or several, and each that is no good."""

import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.manifests.csv_rows import csv_rows
from shardmill.transforms.inputs.manifests.formats import columns_of, folder_of, is_parquet, is_textual
from shardmill.transforms.inputs.manifests.given import ManifestFile, numbered
from shardmill.transforms.inputs.manifests.json_rows import json_rows
from shardmill.transforms.inputs.manifests.names import RESERVED, USUAL_NAMES, ManifestNames
from shardmill.transforms.inputs.manifests.parquet_rows import parquet_rows
from shardmill.transforms.inputs.manifests.rows import Row, rows_of
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed


def read_rows(
    path: str, allow_outside: bool, reserved: Collection[str] = RESERVED, names: ManifestNames = USUAL_NAMES
) -> Iterator[Row | Reject]:
    """The rows of the manifest at `path`, whose columns have no `reserved` names; one that is no good is a Reject.
    Equal rows all come: nothing is remembered of those that were read.

    Raises:
      UserError: there is no such file, no column that names the file, or a quote that is never closed.
    """
    folder = folder_of(path)
    if is_parquet(path):
        yield from rows_of(parquet_rows(path, names.reserved(reserved), names), path, folder, allow_outside, names)
        return
    try:
        raw = storage.open_read(path)
    except FileNotFoundError:
        raise UserError(f"--manifest {path}: no such file") from None
    except OSError as error:
        raise_if_store_failed(error, path)
        raise UserError(f"--manifest {path} cannot be read: {error_text(error)}") from None
    with raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as text:
        values_of = csv_rows if is_textual(path) else json_rows
        values = values_of(text, path, names.reserved(reserved), names)
        yield from rows_of(values, path, folder, allow_outside, names)


def read_all(
    manifests: Sequence[ManifestFile],
    allow_outside: bool,
    reserved: Collection[str] = RESERVED,
    names: ManifestNames = USUAL_NAMES,
) -> Iterator[Row | Reject]:
    """The rows of several manifests, one after another: their names as seen from the folder of all, their splits those
    of the manifests, and their lines as shardmill.transforms.inputs.manifests.given.numbered has it.

    Raises:
      UserError: as `read_rows`; or they are of several formats, have different columns, say splits where it is said
        of the manifest, or none of those of a split has a row.
    """
    _check_alike(manifests, names)
    empty = {manifest.split: manifest for manifest in reversed(manifests)}
    for place, manifest in enumerate(manifests):
        for row in read_rows(manifest.path, allow_outside, reserved, names):
            empty.pop(manifest.split, None)
            if isinstance(row, Reject):
                yield row if row.line is None else replace(row, line=numbered(place, row.line))
                continue
            if manifest.split and row.split is not None:
                raise UserError(
                    f"--manifest {manifest.split}={manifest.path}: line {row.line} has a split of its own,"
                    f" {row.split!r}; leave out the column, or the split of the file"
                )
            if manifest.split or manifest.inside or place:
                split, line = manifest.split or row.split, numbered(place, row.line)
                row = replace(row, name=manifest.name(row.name), split=split, line=line)
            yield row
    for split, manifest in empty.items():
        number = sum(other.split == split for other in manifests)
        given = f"{split}={manifest.path}" if split else manifest.path
        others = f", nor {'has' if number == 2 else 'have'} the other {number - 1:,}" if number > 1 else ""
        raise UserError(f"--manifest {given} has no rows{others}; expected one for each file")


def _check_alike(manifests: Sequence[ManifestFile], names: ManifestNames) -> None:
    """Check that manifests can be one input; raises UserError."""
    first, *others = manifests
    for other in others:
        if is_textual(first.path) != is_textual(other.path):
            raise UserError(
                f"--manifest: {first.path} and {other.path} are of formats of which one has types and the other texts"
                " alone; give manifests of one format"
            )
    of_first = columns_of(first.path) if others else None
    for other in others:
        columns = columns_of(other.path)
        if of_first is not None and columns is not None and (odd := sorted(set(of_first) ^ set(columns))):
            has, lacks = (first, other) if odd[0] in of_first else (other, first)
            raise UserError(
                f"--manifest: {has.path} has a column {odd[0]!r}, which {lacks.path} has not; give manifests of the"
                " same columns"
            )
