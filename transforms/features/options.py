"""Options of add-ons, which a command's configuration holds in addition to its own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from shardmill.transforms.options.declare import Option, Options, options_of


@dataclass(frozen=True, kw_only=True)
class AddOnOptions(Options):
    """Options of one add-on. Modules that define them are imported for `--help`, so they import little."""

    precedes: ClassVar[str] = ""  # the option before which --help and manifests list them; "" for the end
    # the RowAddOn that is made `of` options and a configuration, as `folder.rows.Class`; "" for none
    rows: ClassVar[str] = ""
    reads_schema: ClassVar[bool] = False  # True if a schema may turn on the hooks for rows, without any option
    stream: ClassVar[str] = ""  # the StreamAddOn, see pipelines.config.job; at most one add-on of a job has it
    analysis: ClassVar[str] = ""  # what makes the Analysis, of options and a JobConfig, as `folder.module.name`
    observer: ClassVar[str] = ""  # the ImageObserver that looks at each image of a job, as `folder.module.NAME`
    quantity: ClassVar[str] = ""  # value of --balance that needs these options
    libraries: ClassVar[tuple[str, ...]] = ()  # whose releases can change the bytes
    derived: ClassVar[Mapping[str, str]] = {}  # by option: what examples hold in place of the input's columns
    by_column: ClassVar[tuple[str, ...]] = ()  # options of (column, value) pairs that decide the columns' types
    sources: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # options that replace --input, with those that affect it
    named_sources: ClassVar[tuple[str, ...]] = ()  # those that messages name
    # by command: options to show in its short help, behind the first if it is there already, and examples
    short_help: ClassVar[Mapping[str, tuple[tuple[str, ...], *tuple[str, ...]]]] = {}

    def check(self, config: Any) -> None:
        """Check the options together with those of the job's JobConfig; raises UserError."""


def load(name: str) -> Any:
    """Import and return what an add-on calls `folder.module.NAME`."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(f"shardmill.addons.{module}"), attribute)


def insert_options(options: Sequence[Option], add_ons: Iterable[type[AddOnOptions]]) -> tuple[Option, ...]:
    """Return `options` with those of add-ons: with options a, b, c, those of an add-on that precedes b follow a."""
    found = list(options)
    for add_on in add_ons:
        place = next((place for place, option in enumerate(found) if option.field == add_on.precedes), len(found))
        found[place:place] = options_of(add_on)
    return tuple(found)
