"""The registry of add-ons: what each has, so that its modules are imported only when they are used."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib import import_module
from os import fspath
from typing import Any, NamedTuple

from shardmill.errors import CorruptDataError, UserError

# The headings of `shardmill --help`
CONVERTING = "Convert data to TFRecord shards"
LOOKING = "Look at data sets"
MANAGING = "Rebuild data sets and manage their versions"
PROGRAM = "This program"


class Entry(NamedTuple):
    """The line of a command: its summary, where it is, and what it adds to the Python API."""

    summary: str  # a phrase for `shardmill --help`
    module: str  # its `COMMANDS` contain the command's record; of an add-on, a module in its folder
    exports: tuple[str, ...] = ()  # public names of the module: the command's function, then classes of results


class Quantity(NamedTuple):
    """A quantity that --balance can make equal in all shards."""

    name: str
    data: str  # the data that has it
    flag: str  # flag without which a job has none


@dataclass(frozen=True, slots=True)
class AddOn:
    """A feature in a folder of its own in this package."""

    folder: str
    commands: Mapping[str, Mapping[str, Entry]] = field(default_factory=dict)  # by heading and name
    leads: bool = False  # True if its commands come before those of the core in their heading
    recipes: bool = False  # True if its module `recipe` writes the flags of a converting command as a recipe
    stats_section: str = ""  # key of its section of stats.json: SECTION of its module `stats`, and its page.html
    # kinds of records, or commands over files, with the OPTIONS of its module `options`, for all or by kind
    units: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()  # its modules that the core calls, of page, formats and foreign
    quantity: Quantity | None = None  # which its options count
    code: tuple[str, ...] = ()  # flags that bring code, which may use Beam itself
    # by name: help of the checks that its section of stats.json makes, and the value above which they warn by default
    checks: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """Return the dotted name of its package."""
        return f"{__package__}.{self.folder}"

    def module(self, name: str) -> str:
        """Return the dotted name of one of its modules."""
        return f"{self.package}.{name}"


ADD_ONS = (
    AddOn("annotations", units=("images",), hooks=("formats",), code=("annotations",)),
    AddOn(
        "mapping", units=("row", "line", "example", "images", "arrays", "audio", "text"), code=("map", "map_batches")
    ),
    AddOn(
        "near_duplicates",
        stats_section="near_duplicates",
        units=("images",),
        checks={
            "similar_contents": (
                "Share of the images of a split other than train that look like an image in another split;"
                " needs --near_duplicates",
                0.01,
            )
        },
    ),
    AddOn(
        "nightly",
        commands={
            MANAGING: {
                "rebuild": Entry(
                    "rebuild data sets from recipes if anything changed", "rebuild_command", ("rebuild", "Rebuilt")
                ),
                "retain": Entry(
                    "delete expired versions, and what dead jobs left", "retain_command", ("retain", "Retained")
                ),
            }
        },
        leads=True,
        recipes=True,
    ),
    AddOn(
        "reports",
        commands={
            LOOKING: {
                "inspect": Entry("show what is in a data set", "inspect_command", ("inspect", "Inspection")),
                "diff": Entry("show what differs between two versions", "report_command", ("diff", "Comparison")),
                "report": Entry("write an HTML report about a version", "report_command", ("report", "Report")),
            }
        },
        leads=True,
        hooks=("page",),
    ),
    AddOn(
        "sql",
        commands={
            CONVERTING: {
                "sql": Entry("turn the rows of an SQL query into TFRecord shards", "commands"),
                "bigquery": Entry("turn a table or a query of BigQuery into TFRecord shards", "commands"),
            }
        },
    ),
    AddOn(
        "samples",
        {PROGRAM: {"sample": Entry("write small inputs", "commands"), "selftest": Entry("try shardmill", "commands")}},
        leads=True,
    ),
    AddOn("masks", units=("images",)),
    AddOn("run_lengths", units=("images",)),
    AddOn("times", units=("row", "images", "arrays", "audio")),
    AddOn("sequences", units=("row",)),
    AddOn(
        "view",
        commands={LOOKING: {"view": Entry("look into any records in a browser", "view_command", ("view", "View"))}},
        hooks=("foreign",),
    ),
    AddOn("tokens", units=("row", "line"), quantity=Quantity("tokens", "tokenized text", "tokenizer")),
    AddOn(
        "transform",
        units=("row", "line", "images", "arrays", "audio"),
        code=("transform", "module_file"),
    ),
)
QUANTITIES = {add_on.quantity.name: add_on.quantity for add_on in ADD_ONS if add_on.quantity is not None}

CHECKS = {name: check for add_on in ADD_ONS for name, check in add_on.checks.items()}


def options_for(unit: str) -> list[Any]:
    """Return the AddOnOptions of commands over a kind of records, such as row, or of a command over files."""
    found = (import_module(add_on.module("options")).OPTIONS for add_on in ADD_ONS if unit in add_on.units)
    return [options[unit] if isinstance(options, dict) else options for options in found]


def source_flags(affected_by: str = "") -> list[str]:
    """Return the flags that name images in place of --input, or only those of them that an option affects."""
    found = ((name, kind.sources[name]) for kind in options_for("images") for name in kind.named_sources)
    return [f"--{name}" for name, affecting in found if not affected_by or affected_by in affecting]


def has_flag(name: str) -> bool:
    """Return True if an add-on declares a flag: text of the core names the flag only then."""
    units = {each for add_on in ADD_ONS for each in add_on.units}
    declared = (item for each in units for options in options_for(each) for item in fields(options))
    return any(name == (item.metadata["flag"].name or item.name) for item in declared if "flag" in item.metadata)


def modules(name: str) -> list[Any]:
    """Return the modules of a name, one of each add-on whose hooks name it."""
    return [import_module(add_on.module(name)) for add_on in ADD_ONS if name in add_on.hooks]


def find_hook(module: str, name: str) -> Any:
    """Return what the first add-on with a module calls by a name there; None without such an add-on."""
    return next((getattr(each, name) for each in modules(module)), None)


def find_or_open(path: Any, open_it: Callable[[Any], Any], files: Any = None) -> Any:
    """Return what `open_it` opens, or else record files without a manifest; raise its error if there are no files."""
    try:
        return open_it(fspath(path))
    except (TypeError, UserError, CorruptDataError):  # a TypeError if there are several paths
        with suppress(ModuleNotFoundError):  # where only the reader is installed, which looks into no folders
            for module in modules("foreign"):
                if (found := module.find_foreign(path, files)) is not None:
                    return found
        raise
