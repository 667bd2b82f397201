"""The encoder of rows that are gathered into sequences: each as it lies in a run, its id as its key and its time as its
tie. Pure."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.text_values import exact_floats, misfit, parse_values
from shardmill.transforms.columns.timestamps import read_times
from shardmill.transforms.examples.framing import frame
from shardmill.transforms.formats.base import FileRef, Rows, key_column
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.records.encode import STAGE, EncodedRows, PreparedRows, TableEncoder
from shardmill.transforms.sequences.options import Sequencing
from shardmill.transforms.sequences.rows import row_records, widths_of
from shardmill.transforms.sequences.times import order_keys

_FILE, _LINE, _ORDER = "\0file", "\0line", "\0order"  # of a row, beside its columns


@dataclass(frozen=True)
class SequenceRowEncoder(TableEncoder):
    """Rows of a table that become sequences.

    Attributes:
      sequencing: what they are gathered by.
    """

    sequencing: Sequencing = field(kw_only=True)

    def prepare(self, rows: Rows, file: FileRef, layout: TableLayout) -> tuple[PreparedRows, list[Reject]]:
        """As a table; reject rows without an id, a time, or a value of any other column, too."""
        batch, rejects = rows.batch, []
        good = np.ones(len(batch), bool)

        def reject(bad: np.ndarray, reason: Any) -> None:
            for row in np.flatnonzero(bad & good).tolist():
                rejects.append(Reject(file.name, int(rows.lines[row]), STAGE, reason(row)))
            good[bad] = False

        how = self.sequencing
        reject(_missing(batch[key_column(how.id)]), lambda _: f"no id: column {how.id!r} has no value")
        reject(_missing(batch[how.time]), lambda _: f"no time: column {how.time!r} has no value")
        times = batch[how.time]
        if how.time in layout.times:
            found = read_times(times, layout.times[how.time], how.time in layout.counted)
            reject(found.bad, lambda row: f"no time: column {how.time!r}: {found.reason(row)}")
            times = found.values
        elif _is_spelled(how.time, layout):
            texts = times.cast(pa.binary())
            values, misfits = parse_values(texts, "float32")
            wrong = np.zeros(len(batch), bool)
            wrong[misfits] = True
            reject(wrong, lambda row: f"no time: column {how.time!r}: {misfit(texts[row].as_py(), 'float32')}")
            batch = batch.set_column(batch.schema.get_field_index(how.time), how.time, values)
            times = exact_floats(texts)
        order, timeless = order_keys(times)
        reject(timeless, lambda row: f"no time: {_shown(times[row].as_py())} in column {how.time!r} is {_EXPECTED}")
        for feature in layout.features:
            if feature.name not in layout.required_labels:
                said = (
                    f"column {feature.name!r} has no value, and a sequence has one for each of its rows;"
                    f" --fill {feature.name}=VALUE puts one in its place"
                )
                reject(_missing(batch[feature.name]), lambda _, said=said: said)
        names = pa.array([file.name.encode()] * len(batch), pa.large_binary())
        for name, column in ((_FILE, names), (_LINE, pa.array(rows.lines)), (_ORDER, pa.array(order))):
            batch = batch.append_column(name, column)
        kept = replace(rows, batch=batch.filter(pa.array(good)), lines=rows.lines[good])
        prepared, more = super().prepare(kept, file, layout)
        return prepared, [*rejects, *more]

    def encode(self, batch: pa.RecordBatch, layout: TableLayout) -> EncodedRows:
        """Lay each row out for its run."""
        features = batch.select([feature.name for feature in layout.features])
        helpers = {name: batch[key_column(name)] for name in self.helpers if key_column(name) in batch.schema.names}
        ids = helpers[self.sequencing.id]
        records = row_records(batch[_FILE], batch[_LINE], ids, features.columns, widths_of(layout.features))
        ties, labels = batch[_ORDER].to_numpy(), features.select(list(layout.labels))
        return EncodedRows(frame(records), features, helpers, ties=ties, part=labels, is_compared=False)


_EXPECTED = "neither a number nor a date or time as ISO 8601 has it without an offset, such as 2024-01-31T09:00:00"


def _is_spelled(name: str, layout: TableLayout) -> bool:
    """Whether a column of numbers with fractions is read as texts, which hold more digits than float32."""
    dtype = next((feature.dtype for feature in layout.features if feature.name == name), None)
    return dtype == "float32" and layout.types[name].dtype == "bytes"


def _missing(column: pa.Array) -> np.ndarray:
    return column.is_null().to_numpy(zero_copy_only=False)


def _shown(value: Any) -> str:
    return repr(value.decode(errors="backslashreplace")) if isinstance(value, bytes) else str(value)
