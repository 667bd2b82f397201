"""What a user says of columns: their types, which of them are labels, images, times and keys, which are left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.features.feature import TimeUnit
from shardmill.pipelines.config.given_schema import GivenSchema, read_schema
from shardmill.transforms.options.columns import parse_fill, parse_names
from shardmill.transforms.options.declare import Options, ValueMistake, flag
from shardmill.transforms.options.timestamps import parse_timestamps


def _parse_separators(value: Any) -> dict[str, str]:
    """Separators by label, "" of the only one, from `;`, or `tags=;` of one of several, or a mapping."""
    if isinstance(value, Mapping):
        found = {str(name): str(separator) for name, separator in value.items()}
    else:
        name, _, separator = str(value).rpartition("=")
        found = {name: separator} if name and separator else {"": str(value)}
    if not all(separator.strip() for separator in found.values()):
        raise ValueMistake(f"{value!r}: expected what stands between classes, such as ';' or '|'")
    return found


def _separators_to_json(separators: Mapping[str, str]) -> str | dict[str, str]:
    return separators[""] if "" in separators else dict(separators)


def _one_or_list(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(Options):
    """Columns of tables, and features of records that are tf.train.Examples already."""

    title: ClassVar[str] = "features"

    fill: tuple[tuple[str, str], ...] = flag(
        (), "in place of missing values; repeat", parse=parse_fill, repeats=True, metavar="COLUMN=VALUE", to_json=dict
    )
    schema: GivenSchema | None = flag(
        None,
        "a schema.pbtxt: no inference, and rows that do not fit it are rejected",
        parse=read_schema,
    )
    drop: tuple[str, ...] = flag((), "column,… to leave out", parse=parse_names, to_json=list)
    only: tuple[str, ...] = flag((), "column,… to keep alone", parse=parse_names, to_json=list)
    label: tuple[str, ...] | None = flag(
        None,
        "column,… or feature that is the label: strings become ids, numbers stay; a list is several classes",
        parse=parse_names,
        to_json=_one_or_list,
    )
    label_separator: Mapping[str, str] | None = flag(
        None,
        "between the classes in a text that names several; of one of several labels tags=;",
        parse=_parse_separators,
        to_json=_separators_to_json,
        group="labels",
        told=False,
    )
    image: tuple[str, ...] = flag(
        (),
        "column,… of encoded images: each is checked, a damaged one is a reject",
        parse=parse_names,
        to_json=list,
        told=False,
    )
    timestamp: tuple[tuple[str, TimeUnit], ...] = flag(
        (),
        "a column of dates or times as int64, in s, ms, us or ns since 1970 in UTC; repeat",
        parse=parse_timestamps,
        repeats=True,
        metavar="COLUMN=UNIT",
        default_words="times stay texts",
        to_json=dict,
        told=False,
    )
    key: str | None = flag(None, "the column that is a record's identity", default_words="all of the record")
