"""Argument parsers made from declared options, and configurations made from parsed flags."""

import argparse
import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from shardmill.addons import registry
from shardmill.errors import UserError, describe_exit_statuses
from shardmill.text import did_you_mean, mask_urls
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import Option, Options, flag

if TYPE_CHECKING:
    from shardmill.pipelines.config.job import JobConfig

# What else than a second time may be meant.
_TWICE = {
    "--input": ", a folder that holds everything or a glob such as 'data/*/*'",
    "--splits": ", as in --splits train=0.8,test=0.2",
    "--num_shards": ", as in --num_shards train=16,test=2",
}
OUTPUT_FLAGS = ("--json", "--log_format", "--quiet", "--verbose")  # which nearly all commands have, and few mean
_FAR = 0.15  # how much more alike one of these must be than any other flag
_NEAR = 0.8  # how like another word a misspelt one is, by difflib's measure


class _StoreOnce(argparse._StoreAction):
    """An argparse action that takes a flag once, or joins its lists; argparse would silently keep the last value."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, flag: str | None = None
    ) -> None:
        if flag is not None and isinstance(parser, Parser):
            if flag in parser.given and self.metavar == "COLUMN,…":
                values = f"{getattr(namespace, self.dest)},{values}"
            elif flag in parser.given:
                raise UserError(f"{flag} is given twice; give it once{_TWICE.get(flag, '')}")
            parser.given.add(flag)
        super().__call__(parser, namespace, values, flag)


class _ShowAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        parser._short_help = ()
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UserErrors and takes no abbreviations: Beam's flags share the command line."""

    def __init__(self, *, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self._positionals.title = "arguments"
        if self.add_help:
            self._option_string_actions["--help"].help = "Show this help"
        self._examples = examples  # arguments of the command, shown at the end of --help
        self._short_help: Sequence[str] = ()  # flags that --help shows; all if empty
        self.given: set[str] = set()  # single-value flags found so far in the current line
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse as argparse does; report a misspelt flag before a missing required one, since they may be the same."""
        self.given.clear()
        required = [action for action in self._actions if action.required]
        self.usage = self.format_usage().replace("%", "%%")
        for action in required:
            action.required = False
        try:
            found, rest = super().parse_known_args(args, namespace)
        finally:
            for action in required:
                action.required = True
        missing = [action for action in required if getattr(found, action.dest, None) is None]
        if missing:
            check_known(rest, self)
            names = [action.option_strings[0] if action.option_strings else str(action.metavar) for action in missing]
            sources = ["input", "manifest", *(name for kind in registry.options_for("images") for name in kind.sources)]
            if "--manifest" in self._option_string_actions and not any(hasattr(found, name) for name in sources):
                names.insert(0, "--input")
            self.error(f"the following arguments are required: {', '.join(names)}; usage: {self.format_usage()}")
        return found, rest

    def add_short_help(self, names: Sequence[str]) -> None:
        """Let --help show only the flags of these names; --help-all shows all flags."""
        self._short_help = [f"--{name}" for name in names]
        self.add_argument("--help-all", action=_ShowAll, nargs=0, dest=argparse.SUPPRESS, help="Show all options")

    def format_usage(self) -> str:
        """Return the line of usage: positional arguments, required flags and `[options]`."""
        words = [self.prog]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                words.append(f"{action.metavar} …")
            elif not action.option_strings:
                name = str(action.metavar)
                several = action.nargs == "+" and " " not in name
                words.append(f"[{name}]" if action.nargs == "?" else f"{name} …" if several else name)
            elif action.required or action.option_strings[0] == "--input":
                words.append(f"{action.option_strings[0]} {action.metavar}")
        return " ".join([*words, "[options]"])

    def format_help(self) -> str:
        """Return the help of the most used flags, or of all, with the examples."""
        self.usage = self.usage or self.format_usage().replace("%", "%%")
        shown = "".join(f"  {self.prog} {example}\n" for example in self._examples)
        examples = f"\nexamples:\n{shown}" if shown else ""
        if not self._short_help:
            return f"{super().format_help()}{examples}"
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, (), ())
        formatter.add_text(self.description)
        for title, actions in (
            ("arguments", [action for action in self._actions if not action.option_strings]),
            ("options", [self._option_string_actions[name] for name in self._short_help]),
        ):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        return f"{formatter.format_help()}{examples}\nAll options: {self.prog} --help-all\n"

    def error(self, message: str) -> NoReturn:
        """Raise `message` as a UserError."""
        flag = re.fullmatch(r"argument (--\w+): expected one argument", message)
        raise UserError(f"{flag[1]}: no value; write one that begins with '-' as {flag[1]}=VALUE" if flag else message)


EPILOG = (
    "Every option of Apache Beam is passed through: --runner, --direct_num_workers, --region, … "
    f"{describe_exit_statuses(0, 1, 2, 4, 129, 130, 143)}"
)


def beam_options(rest: Sequence[str], own_parser: argparse.ArgumentParser) -> Any:
    """Return Beam's PipelineOptions made from the flags that are not ours; raises UserError for an unknown flag."""
    from apache_beam.options.pipeline_options import StandardOptions

    from shardmill.pipelines.config.beam_flags import CachedOptions

    options = CachedOptions([*rest, *check_known(rest, own_parser)])
    if options.get_all_options(retain_unknown_options=True)["labels"] and not options.view_as(StandardOptions).runner:
        near = difflib.get_close_matches("--labels", _list_flags(own_parser), 2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UserError(
            "--label, or --labels, is Dataflow's here, for the labels of a job on Google's cloud, and there is no"
            f" --runner{hint}"
        )
    return options


def check_known(rest: Sequence[str], own_parser: argparse.ArgumentParser) -> list[str]:
    """Check that every word unknown to `own_parser` is a flag of Beam or of the job server, or its value.

    If the job server gives no answer, a flag unlike any known one is passed on. Return the flags to add for the runner.
    """
    from shardmill.pipelines.config.beam_flags import beam_parser, default_flags, is_portable, server_flags

    parser: Any = beam_parser()
    parser.error = lambda message: _raise(UserError(message))
    known, unknown = parser.parse_known_args(list(rest))
    if not is_portable(known):
        _refuse_first(unknown, own_parser, _list_flags(parser))
        return []
    theirs = server_flags(known) if unknown else None
    beams = [*_list_flags(parser), *(theirs or ())]
    for place, word in enumerate(unknown):
        if word.startswith("--"):
            flag = word.partition("=")[0]
            near = difflib.get_close_matches(flag, [*_list_flags(own_parser), *beams], 1, _NEAR) if not theirs else ()
            if near or (theirs and flag not in theirs):
                _refuse_first(unknown[place:], own_parser, beams)
        elif not (place and unknown[place - 1].startswith("--") and "=" not in unknown[place - 1]):
            _refuse_first(unknown[place:], own_parser, beams)
    return default_flags(rest)


def _refuse_first(unknown: Sequence[str], own_parser: argparse.ArgumentParser, beam_flags: Sequence[str]) -> None:
    if not unknown:
        return
    first = mask_urls(unknown[0])
    word = first.split("=")[0]
    if not word.startswith("-"):
        guess = f"; did you mean --input {first}?" if "--input" in _list_flags(own_parser) else ""
        raise UserError(f"unexpected {first!r}: no flag is before it{guess}")
    near = nearest_flags(word, _list_flags(own_parser), beam_flags)
    raise UserError(f"unknown flag {first}" + (f"; did you mean {' or '.join(near)}?" if near else ""))


def _list_flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def nearest_flags(word: str, own_flags: Sequence[str], beam_flags: Sequence[str]) -> list[str]:
    """Return the nearest of our flags to an unknown one, and one of Beam's hundreds only if it is very near."""

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, word, other).ratio()

    own_matches = difflib.get_close_matches(word, [flag for flag in own_flags if flag not in OUTPUT_FLAGS], 1)
    output_matches = difflib.get_close_matches(word, [flag for flag in own_flags if flag in OUTPUT_FLAGS], 1)
    if output_matches and (not own_matches or likeness(output_matches[0]) > likeness(own_matches[0]) + _FAR):
        own_matches = output_matches
    beam_matches = difflib.get_close_matches(word, beam_flags, 1, _NEAR)
    if own_matches and beam_matches and likeness(beam_matches[0]) <= likeness(own_matches[0]):
        return own_matches
    if beam_matches and own_matches and likeness(own_matches[0]) < _NEAR:
        return beam_matches
    return [*own_matches, *beam_matches]


def check_folder_first(arguments: Sequence[str], folder: str, rest: Sequence[str]) -> None:
    """Refuse `--runner X FOLDER`: only Beam knows that X belongs to --runner, and X would be taken for the folder."""
    before = arguments[: list(arguments).index(folder)]
    if any(flag in before for flag in rest if flag.startswith("-")):
        raise UserError(
            f"{folder!r} was taken for the data set's folder; give the folder first, then the options of Beam"
        )


def _raise(error: Exception) -> NoReturn:
    raise error


_METAVARS = {  # placeholders of values in --help, by the names of flags that have them
    "AGE": "max_age",
    "CHAR": "quote escape",
    "COLUMN": "file_column",
    "COLUMN,…": "columns drop only image json_columns label",
    "COLUMN=UNIT,…": "coordinates",
    "DIR": "output file_root",
    "ENCODING": "encoding",
    "FILE": "labels_file schema",
    "FRACTION": "max_reject_fraction",
    "INT,…": "image_bands shape",
    "INT|SPLIT=INT,…": "num_shards",
    "LEVELS": "folders",
    "NAME": "name feature",
    "NAME=FRACTION,…": "splits",
    "PATH": "input",
    "REGEX": "label_pattern",
    "SIZE": "shard_size block_size",
    "SUFFIX": "file_suffix",
    "TEMPLATE": "file_template",
    "TEXT": "comment delimiter separator label_separator",
    "TEXT,…": "missing",
    "TYPE": "dtype",
    "VERSION": "version",
    "WIDTHxHEIGHT": "resize",
    "YYYY-MM-DD": "date",
}
_METAVAR_BY_FLAG = {name: metavar for metavar, names in _METAVARS.items() for name in names.split()}
_METAVAR_BY_TYPE = {int: "INT", float: "NUMBER"}
# The headings of --help in their order; others come where they are first declared.
_GROUPS = ("input", "features", "images", "arrays", "audio", "labels", "output", "splits and order", "shards", "run")

Config = TypeVar("Config", bound="JobConfig")


def add_flags(parser: Parser, options: Iterable[Option]) -> None:
    """Add a flag for each of `options` to `parser`; values stay texts, which the configuration parses."""
    groups: dict[str, list[Option]] = {name: [] for name in _GROUPS}
    for option in options:
        if not option.flag.hidden:
            groups.setdefault(option.group, []).append(option)
    for name, members in groups.items():
        if members:
            group = parser.add_argument_group(name)
            for option in sorted(members, key=lambda member: member.name != "input"):
                _add_flag(group, option)


def _add_flag(group: Any, option: Option) -> None:
    name, attributes = (
        f"--{option.name}",
        {"dest": option.field, "default": argparse.SUPPRESS, "help": _make_help(option)},
    )
    if option.type is bool and option.flag.parse is None:
        group.add_argument(name, action="store_true", **attributes)
        return
    choices = option.flag.choices and f"{{{','.join(choice or 'none' for choice in option.flag.choices)}}}"
    metavar = option.flag.metavar or choices or _METAVAR_BY_FLAG.get(option.name)
    metavar = metavar or _METAVAR_BY_TYPE.get(option.type, option.name.upper())
    action = "append" if option.flag.repeats else "store"
    names = (name, *([f"--{option.flag.other_name}"] if option.flag.other_name else []))
    group.add_argument(
        *names, action=action, metavar=metavar, required=option.default is MISSING or option.flag.required, **attributes
    )


def _make_help(option: Option) -> str:
    has_default = option.default not in (None, MISSING, "", ()) and not isinstance(option.default, bool)
    default = option.flag.default_words or (str(option.default) if has_default else "")
    words = f"{option.flag.help} (default: {default})" if default else option.flag.help
    return words.replace("%", "%%")


def make_config(cls: type[Config], options: Sequence[Option], values: Mapping[str, Any], **fixed: Any) -> Config:
    """Parse, resolve and check a configuration; `values` are texts or parsed values by field or flag name.

    `options` are those of `cls` that may be given; `fixed` are fields that are not options.
    """
    flags = {option.name: option for option in options if not option.flag.hidden}
    known = {option.field: option for option in options} | flags
    named: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise UserError(f"unknown option {name!r}{did_you_mean(name, known, '; did you mean {}?')}")
        option = known[name]
        named[option.field] = option.parse(value) if option.flag.reads_file and value is not None else value
    missing = [option.name for option in options if option.default is MISSING and option.field not in named]
    if missing:
        raise UserError(f"--{missing[0]} is required")
    of_add_on = {option.field: option.owner for option in options if issubclass(option.owner, AddOnOptions)}
    given = {name: named.pop(name) for name in of_add_on if name in named}
    add_ons = tuple(
        owner(**{name: value for name, value in given.items() if of_add_on[name] is owner})
        for owner in dict.fromkeys(of_add_on[name] for name in given)
    )
    changed = tuple(options for options in add_ons if options != type(options)())
    if changed:
        named["add_ons"] = changed
    texts = (",".join(map(str, each)) if isinstance(each, (list, tuple)) else str(each) for each in values.values())
    config = cls(**named, **fixed, given_texts=tuple(re.split("[=,]", ",".join(texts)))).resolve()
    config.check()
    return config


def to_plain(value: Any) -> Any:
    """Return a value with texts for paths, also in lists, tuples and dictionaries."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {to_plain(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_plain, value))
    return value


@dataclass(frozen=True, kw_only=True)
class LogOptions(Options):
    """Options for a command's messages."""

    title: ClassVar[str] = "messages"

    log_format: str = flag(
        "text",
        "Format of messages on stderr; json writes one JSON object a line, and no progress bar",
        choices=("text", "json"),
        affects_output=False,
    )
    quiet: bool = flag(False, "Print only warnings and errors", affects_output=False)


@dataclass(frozen=True, kw_only=True)
class BuildOutputOptions(LogOptions):
    """Output options of a command that builds a version."""

    json: bool = flag(False, "Print only the build record to stdout, as one line of JSON", affects_output=False)
    verbose: bool = flag(False, "Print all code that reads the data, as with its first version", affects_output=False)


def log_options(args: argparse.Namespace) -> LogOptions:
    """Return the output options in parsed arguments; raises UserError."""
    return LogOptions(**{name: value for name, value in vars(args).items() if name in ("log_format", "quiet")})


def parse_output_options(arguments: Sequence[str]) -> LogOptions:
    """Read the output options before the command parses `arguments`, so that errors in these follow them too."""
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    scan.add_argument("--log_format", default="text", choices=("text", "json"))
    scan.add_argument("--quiet", action="store_true")
    try:
        found, _ = scan.parse_known_args(list(arguments))
    except (argparse.ArgumentError, SystemExit):  # of which the command's own parser will speak
        return LogOptions()
    return LogOptions(log_format=found.log_format, quiet=found.quiet)
