"""Options that change records or files by a user's function before they are examples."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import newer_flag, options_of

if TYPE_CHECKING:
    from shardmill.addons.mapping.function import UserFunction
    from shardmill.pipelines.config.job import JobConfig


def _read_function(option: str, value: Any) -> Any:
    from shardmill.addons.mapping.function import UserFunction

    return UserFunction.parse(option, value)


@dataclass(frozen=True, kw_only=True)
class MapOptions(AddOnOptions):
    """Flags that name a user's function."""

    title: ClassVar[str] = "features"
    precedes: ClassVar[str] = "folders"
    stream: ClassVar[str] = "mapping.changes.FunctionCalls"

    map: Any = newer_flag(
        None,
        "Function of a dictionary that returns one, None to leave the record out, or a list of dictionaries, for"
        " example clean.py:clean_row",
        parse=partial(_read_function, "--map"),
        reads_file=True,
        metavar="FILE.py:FUNCTION",
    )
    map_batches: Any = newer_flag(
        None,
        "Function of a pyarrow.RecordBatch that returns one, for example clean.py:clean_batch; faster than --map",
        parse=partial(_read_function, "--map_batches"),
        reads_file=True,
        metavar="FILE.py:FUNCTION",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.map is not None and self.map_batches is not None:
            raise UserError("--map and --map_batches: records are changed by one function; leave one of them out")

    @property
    def function(self) -> "UserFunction":
        """The function of --map or --map_batches."""
        found: UserFunction = self.map if self.map is not None else self.map_batches
        return found

    def check(self, config: "JobConfig") -> None:
        from shardmill.pipelines.config.records import RecordsConfig

        if isinstance(config, RecordsConfig):
            if config.spec.is_passed_through and self.map_batches is not None:
                raise UserError(
                    f"{self.map_batches}: examples are not in batches; give a function of one example to --map"
                )
            if config.has_raw_records and self.map is not None:
                raise UserError(f"--record_type raw and {self.map}: raw records are not parsed; leave one of them out")
            return
        if self.map_batches is not None:
            raise UserError(f"{self.map_batches}: files are not in batches; give a function of one file to --map")
        defaults = {option.field: option.default for option in options_of(type(config))}
        names = ("reuse", "no_shuffle", "feature_names", "coordinates")
        given = [f"--{name}" for name in names if name in defaults and getattr(config, name) != defaults[name]]
        if given := [*given, *(each.first_given_flag.partition(" ")[0] for each in config.add_ons if each.sources)]:
            raise UserError(f"{self.map} and {given[0]}: the function makes the examples; leave one of them out")


OPTIONS = MapOptions
