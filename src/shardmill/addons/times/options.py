"""The option that stores dates and times as integers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from shardmill.data.features import TimeUnit
from shardmill.errors import UserError
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import items_of, newer_flag
from shardmill.transforms.options.job_options import check_column_words

if TYPE_CHECKING:
    from shardmill.pipelines.config.records import RecordsConfig

# Of numpy.datetime64, and how many of each are a second
TIME_UNITS: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def parse_timestamps(value: Any) -> tuple[tuple[str, TimeUnit], ...]:
    """Parse `created=ms` items, pairs or a mapping into (column, unit) pairs."""
    pairs = [tuple(item.rpartition("=")[::2]) if isinstance(item, str) else tuple(item) for item in items_of(value)]
    check_column_words(pairs, TIME_UNITS, "unit", "created=ms")
    return tuple((column, cast(TimeUnit, unit)) for column, unit in pairs)


@dataclass(frozen=True, kw_only=True)
class TimesOptions(AddOnOptions):
    """Flag that names columns of times. A schema may name more."""

    title: ClassVar[str] = "features"
    precedes: ClassVar[str] = "hive_partitioning"
    rows: ClassVar[str] = "times.rows.TimeColumns"
    reads_schema: ClassVar[bool] = True
    by_column: ClassVar[tuple[str, ...]] = ("timestamp",)

    timestamp: tuple[tuple[str, TimeUnit], ...] = newer_flag(
        (),
        "Unit in which times of a column are stored as int64 since 1970 in UTC: s, ms, us or ns, for example "
        "at=ms; repeatable",
        parse=parse_timestamps,
        repeats=True,
        metavar="COLUMN=UNIT",
        default_words="times stay text",
        to_json=dict,
    )

    def check(self, config: "RecordsConfig") -> None:
        if config.schema is None or not self.timestamp or not config.schema.constraints:
            return
        from shardmill.metadata.schema import unsupported_time_units

        unsupported = unsupported_time_units(config.schema.constraints)
        units = {config.renames.original_name(name): unit for name, unit in unsupported.items()}
        for name, unit in self.timestamp:
            if other := units.get(name):
                raise UserError(
                    f"--timestamp {name}={unit}: {config.schema.origin} says that its times are in {other}, which is"
                    " not written; leave the time_domain out of the schema, or --timestamp"
                )


OPTIONS = TimesOptions
