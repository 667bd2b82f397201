"""The option that stores dates and times as integers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, assign, items_of, split_pairs
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import newer_flag
from shardmill.transforms.options.job_options import parse_words

# Of numpy.datetime64, and how many of each are a second
TIME_UNITS: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
EPOCH = "%s"  # the form of seconds since 1970
_YEARS = ("%Y", "%y", "%G", "%c", "%x")  # what a form says the year by: strptime supplies 1900 without one


def parse_timestamps(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse `created=ms` or `when=s:%d/%m/%Y` items, pairs or a mapping into (column, unit and form) pairs."""
    example = "column=unit, such as created=ms"
    pairs = [  # a form may have commas
        pair for item in items_of(value) for pair in split_pairs([item], example, ":" not in item, is_word=True)
    ]
    parse_words([(name, unit.partition(":")[0]) for name, unit in pairs], TIME_UNITS, "unit", "created=ms")
    for _, unit in pairs:
        _check_form(unit.partition(":")[2])
    return tuple(pairs)


def _check_form(form: str) -> None:
    if form in ("", EPOCH):
        return
    try:
        datetime.strptime(datetime(2024, 1, 31, tzinfo=UTC).strftime(form), form)
    except ValueError as error:
        raise OptionValueError(f"{form} is no form of dates as strptime has it, such as %d/%m/%Y: {error}") from None
    if not any(year in form for year in _YEARS):
        raise OptionValueError(f"{form} has no year; expected a form such as %d/%m/%Y")


@dataclass(frozen=True, kw_only=True)
class TimesOptions(AddOnOptions):
    """Flag that names columns of times. A schema may name more."""

    title: ClassVar[str] = "features"
    precedes: ClassVar[str] = "hive_partitioning"
    rows: ClassVar[str] = "times.rows.TimeColumns"
    reads_schema: ClassVar[bool] = True
    by_column: ClassVar[tuple[str, ...]] = ("timestamp",)

    timestamp: tuple[tuple[str, str], ...] = newer_flag(
        (),
        "Unit in which times of a column are stored as int64 since 1970 in UTC: s, ms, us or ns, such as "
        "at=ms or at=s:%d/%m/%Y; repeatable",
        parse=parse_timestamps,
        repeats=True,
        metavar="COLUMN=UNIT[:FORM]",
        default_words="times stay text",
        to_json=dict,
    )

    def check(self, config: Any) -> None:
        schema = getattr(config, "schema", None)  # which commands over files have not
        if schema is None or not self.timestamp or not schema.constraints:
            return
        from shardmill.metadata.schema import unsupported_time_units

        unsupported = unsupported_time_units(schema.constraints)
        units = {config.renames.original_name(name): unit for name, unit in unsupported.items()}
        for name, unit in self.timestamp:
            if other := units.get(name):
                raise UserError(
                    f"--timestamp {assign(name, unit)}: {schema.origin} says that its times are in {other},"
                    " which is not written; leave the time_domain out of the schema, or --timestamp"
                )


OPTIONS = TimesOptions
