"""The rows of a manifest of JSON lines."""

import io
import json
import math
from collections.abc import Collection, Iterator
from typing import Any

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.nested import ColumnError
from shardmill.transforms.inputs.manifests.headers import check_column, encoding_problem
from shardmill.transforms.inputs.manifests.names import ManifestNames, flag_of
from shardmill.transforms.stores.error_text import error_text


def json_rows(
    text: io.TextIOWrapper, path: str, reserved: Collection[str], names: ManifestNames
) -> Iterator[tuple[int, dict[str, Any]] | Reject]:
    """(line, columns) of each row; raises UserError of a column that cannot be one, or that no row has."""
    checked: set[str] = set()
    any_line = False
    found_name, found_label = False, names.label == "label"
    unfound = {item.column: item for item in names.companions}
    for line, content in enumerate(text, 1):
        if not content.strip():
            continue
        any_line = True
        if problem := encoding_problem([content]):
            yield Reject(path, line, "index", problem)
            continue
        try:
            value = json.loads(content, parse_float=_float)
        except ColumnError as error:
            yield Reject(path, line, "index", str(error))
            continue
        except (ValueError, RecursionError) as error:
            yield Reject(path, line, "index", f"not JSON: {error_text(error)}")
            continue
        if not isinstance(value, dict):
            yield Reject(path, line, "index", "not a JSON object")
            continue
        if problem := encoding_problem([json.dumps(value, ensure_ascii=False)]):
            yield Reject(path, line, "index", problem)
            continue
        for name in value.keys() - checked:
            check_column(name, path, reserved)
            checked.add(name)
        found_name = found_name or any(value.get(column) not in (None, "") for column in names.files)
        found_label = found_label or names.label in value
        unfound = {column: item for column, item in unfound.items() if column not in value} if unfound else unfound
        yield line, value
    if not any_line:
        return
    if not found_name:
        raise UserError(f"--manifest {path}: no row has a {' or '.join(names.files)}")
    if not found_label:
        raise UserError(f"--label_column {names.label}: no row of --manifest {path} has it")
    for item in unfound.values():
        raise UserError(f"{flag_of(item)} {item.column}: no row of --manifest {path} has it")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # which is written as Infinity if it is meant
        raise ColumnError(f"{text} is beyond the range of float32")
    return number
