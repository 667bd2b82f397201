"""What Arrow does not say of a Parquet footer, or cannot be asked without dying: encrypted columns, and lists of a
fixed size.

The footer is a struct of Thrift's compact protocol; numbers of fields are those of parquet.thrift
(https://github.com/apache/parquet-format), the encoding is that of thrift-compact-protocol.md in apache/thrift.
"""

import base64
import binascii
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.records.example import varint

ENCRYPTED = b"PARE"  # ends a file whose footer is encrypted, in the place of PAR1
TAIL_BYTES = 8  # of a file: the length of its footer, and PAR1
_ROW_GROUPS, _COLUMNS, _CRYPTO_METADATA = 4, 1, 8  # numbers of fields in FileMetaData, RowGroup and ColumnChunk
_ARROW_SCHEMA = b"ARROW:schema"
# Types of fields (Thrift, compact protocol)
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def encrypted_columns(footer: bytes) -> frozenset[int]:
    """The leaf columns, from 0, that are encrypted, though the footer is not.

    Raises:
      ValueError: it is no footer.
    """
    try:
        groups = _Thrift(footer).struct(_ROW_GROUPS).get(_ROW_GROUPS) or [{}]
    except RecursionError:
        raise ValueError("the footer is nested too deep") from None
    chunks = groups[0].get(_COLUMNS, [])
    return frozenset(number for number, chunk in enumerate(chunks) if _CRYPTO_METADATA in chunk)


class _Thrift:
    """Values of the compact protocol, read one after the other; a struct is a dictionary by the numbers of its
    fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def struct(self, last: int = 1 << 15) -> dict[int, Any]:
        """A struct's fields, those after number `last` apart; of a list that is such a field, the first item alone."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) and number < last:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15, number == last)
        return fields

    def _value(self, kind: int, first_only: bool = False) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind < _DOUBLE:
            return self._zigzag()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            size = self._varint() if head >> 4 == 15 else head >> 4
            return [self._item(head & 15) for _ in range(min(size, 1) if first_only else size)]
        if kind == _MAP:
            size = self._varint()
            kinds = self._byte() if size else 0
            return [(self._item(kinds >> 4), self._item(kinds & 15)) for _ in range(size)]
        if kind == _STRUCT:
            return self.struct()
        raise ValueError(f"the footer has a value of unknown type {kind}")

    def _item(self, kind: int) -> Any:
        return self._byte() == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, size: int) -> bytes:
        data = self._data[self._position : self._position + size]
        if len(data) < size:
            raise ValueError("the footer ends too early")
        self._position += size
        return data

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift


def with_variable_lists(metadata: pq.FileMetaData) -> pq.FileMetaData | None:
    """The same footer, in whose Arrow schema lists of a fixed size are of any size; None if there are no such lists.

    In Parquet both are written alike, and a null has no items: Arrow refuses all of a row group for one in a list of a
    fixed size.
    """
    stored = (metadata.metadata or {}).get(_ARROW_SCHEMA)
    if stored is None:
        return None
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
    except (pa.ArrowException, binascii.Error, OSError):
        return None  # which Arrow passes over too
    changed = pa.schema([field.with_type(_variable(field.type)) for field in schema], schema.metadata)
    if changed.equals(schema):
        return None
    written = io.BytesIO()
    metadata.write_metadata_file(written)
    footer = written.getvalue()[4:-TAIL_BYTES]
    new = base64.b64encode(changed.serialize().to_pybytes())
    footer = footer.replace(varint(len(stored)) + stored, varint(len(new)) + new)
    return pq.read_metadata(io.BytesIO(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"))


def _variable(kind: pa.DataType) -> pa.DataType:
    """The type with lists of any size in place of those of a fixed one; an extension over such a list is that list."""
    if isinstance(kind, pa.BaseExtensionType):
        storage = _variable(kind.storage_type)
        return kind if storage.equals(kind.storage_type) else storage
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_variable(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_variable(kind.value_type)))
    return kind
