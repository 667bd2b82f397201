"""The rows of a Parquet manifest."""

from collections.abc import Collection, Iterator
from typing import Any

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.formats.parquet.huggingface import OBJECTS as COLUMN
from shardmill.transforms.inputs.manifests.headers import check_header
from shardmill.transforms.inputs.manifests.names import ManifestNames
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed

_AT_ONCE = 4096  # rows made Python values at once


def parquet_rows(
    path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """(row, columns) of each row, from 1; raises UserError of columns that are no good, and of a file that cannot
    be read."""
    from pyarrow import ArrowException, parquet

    try:
        with storage.open_read(path) as raw, parquet.ParquetFile(raw) as file:
            schema = file.schema_arrow
            check_header(schema.names, path, reserved, names)
            for field in schema:
                if not _is_plain(field.type) and (names.objects is None or field.name != COLUMN):
                    raise UserError(
                        f"--manifest {path}: column {field.name!r} is of {field.type}, where a manifest has texts,"
                        " numbers, booleans and lists of them; cast the column, or leave it out"
                    )
            line = 0
            for batch in file.iter_batches(_AT_ONCE):
                for row in batch.to_pylist():
                    line += 1
                    yield line, row
    except FileNotFoundError:
        raise UserError(f"--manifest {path}: no such file") from None
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError):
            raise_if_store_failed(error, path)
        raise UserError(f"--manifest {path} cannot be read: {error_text(error, lines=1)}") from None


def _is_plain(kind: Any) -> bool:
    """Whether values of an Arrow type are those that JSON has."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_plain(kind.value_type)
    plain = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    return any(check(kind) for check in (*plain, types.is_null))
