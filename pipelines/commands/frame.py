"""The frame of a command: its record, its parser, access to stores, and how its result is printed."""

import json
import os
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill.errors import JobError, UserError
from shardmill.filesystem import Paths
from shardmill.pipelines.config.flags import (
    LogOptions,
    Parser,
    add_flags,
    beam_options,
    check_folder_first,
    log_options,
)
from shardmill.pipelines.reports import log
from shardmill.transforms.options.declare import options_of

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

STORE_OPTIONS = "Beam's options for access to an object store, such as --s3_endpoint_url, may follow the folder."
_DIRECTORY_HELP = "Folder of a version, or of a data set: then LATEST selects the version. Local, gs://, s3:// or az://"

FILES_HELP = f"{_DIRECTORY_HELP}. Or TFRecord files of any origin: files, folders or globs"


@dataclass(frozen=True, kw_only=True)
class Command:
    """The record of a command; its line in `pipelines/jobs/registry.py` has its summary and names its module."""

    name: str
    description: str  # at the top of its --help
    epilog: str = ""  # at the end of its --help: notes, then `Exit status: …`
    examples: Sequence[str]  # arguments, shown below that
    add_arguments: Callable[[Parser], object]  # adds those of the command alone
    has_message_flags: bool = True  # False if it adds the flags of messages and --debug itself, or has none
    run: Callable[[Parser, Sequence[str]], int]  # runs the command with the words of a line, returns the exit status

    def parser(self) -> Parser:
        """Return the parser of the command's arguments."""
        parser = Parser(
            prog=f"shardmill {self.name}", description=self.description, epilog=self.epilog, examples=self.examples
        )
        self.add_arguments(parser)
        if self.has_message_flags:
            add_flags(parser, options_of(LogOptions))
            parser.add_argument("--debug", action="store_true", help="Show the full traceback of a failure")
        return parser


class Result(ABC):
    """The result of a command in one sentence: it prints as that, also in a notebook."""

    __slots__ = ()
    warnings: Sequence[str] = ()  # further sentences

    @property
    @abstractmethod
    def text(self) -> str:
        """Return the result in one sentence."""

    def __repr__(self) -> str:
        return "\n".join([self.text, *self.warnings])


def run_here(
    call: Callable[[Namespace], Any],
    paths: Callable[[Namespace], Sequence[str]] = lambda args: list_paths(args.directory),
) -> Callable[[Parser, Sequence[str]], int]:
    """Return how to run a command that runs no job: it prints the result of `call`.

    `paths` returns the paths among the arguments, the folder first: their stores are reached with Beam's options.
    A result with --json has a `content`. Any other is a `Result`, which --quiet hides.
    """

    def run(parser: Parser, arguments: Sequence[str]) -> int:
        args = parse_here(parser, arguments, paths)
        found = call(args)
        if "json" in args:
            log.print_output(json.dumps(found.content) if args.json or log.is_json() else repr(found))
            return int(getattr(found, "exit_status", 0))
        print_outcome(args, found.text)
        for warning in found.warnings:
            log.warn(warning)
        return 0

    return run


def parse_here(parser: Parser, arguments: Sequence[str], paths: Callable[[Namespace], Sequence[str]]) -> Namespace:
    """Parse the arguments of a command that runs no job, and configure access to the stores of `paths`."""
    args, rest = parse_messages(parser, arguments)
    if (options := store_options(parser, rest, paths(args), arguments)) is not None:
        from shardmill.transforms.stores.clients import set_options

        set_options(options)
    return args


def parse_messages(parser: Parser, arguments: Sequence[str]) -> tuple[Namespace, list[str]]:
    """Parse a command's arguments and check the flags of messages; return also the words that are left for Beam."""
    args, rest = parser.parse_known_args(list(arguments))
    if isinstance(several := getattr(args, "directory", None), list) and len(several) == 1:
        args.directory = several[0]
    args.quiet = log_options(args).quiet
    return args, rest


def add_directory(parser: Parser, help_text: str = _DIRECTORY_HELP, nargs: str | None = None) -> None:
    """Add the folder of a version or of a data set; with `nargs` "+" one or several paths."""
    parser.add_argument("directory", metavar="DIRECTORY", help=help_text, nargs=nargs)


def list_paths(paths: Paths) -> list[str]:
    """Return one path or several as a list."""
    return [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else list(paths)


def print_outcome(args: Namespace, message: str) -> None:
    """Print what a command has done, unless --quiet was given."""
    if log.is_json() or not args.quiet:
        log.print_result(message)


@contextmanager
def report_read_errors(folder: Paths) -> Iterator[None]:
    """Within this context, turn a failure to read into a UserError about the folder on the command line."""
    try:
        yield
    except BrokenPipeError:  # of our own output, not of the data set
        raise
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}") from None


def store_options(
    parser: Parser, rest: Sequence[str], paths: Sequence[str], arguments: Sequence[str] = ()
) -> "PipelineOptions | None":
    """Return the Beam options in `rest` for access to the object stores of `paths`.

    Importing Beam's options takes longer than reading from a disk. They are therefore not imported if all paths are
    local and no option is given: then the result is None.
    """
    from shardmill.transforms.stores import storage

    if not rest and all(map(storage.is_local, paths)):
        return None
    from apache_beam.options.pipeline_options import StandardOptions

    options: PipelineOptions = beam_options(rest, parser)
    if arguments:
        check_folder_first(arguments, paths[0], rest)
    if options.view_as(StandardOptions).runner is not None:
        command = parser.prog.rpartition(" ")[2]
        raise UserError(f"--runner has no meaning here: {command} reads the data set in this process")
    return options


@contextmanager
def raise_job_errors() -> Iterator[None]:
    """Within this context, turn an OSError of a store into a JobError, as the command line reports it."""
    try:
        yield
    except OSError as error:
        from shardmill.transforms.stores.protocol import os_error_text

        raise JobError(os_error_text(error)) from error


@contextmanager
def reach_stores(command: str, words: Sequence[str]) -> "Iterator[PipelineOptions]":
    """Reach stores with the options of Beam in `words` within this context, and provide these options."""
    from shardmill.transforms.stores.clients import using_options

    beam = beam_options(to_words(words), Parser(prog=f"shardmill {command}"))
    with raise_job_errors(), using_options(beam):
        yield beam


REACHED: Any = None  # beam_options of a command's own call, which has configured access to the stores


@contextmanager
def reach_paths(command: str, words: Sequence[str], *paths: str) -> Iterator[None]:
    """Reach the stores of `paths` within this context, for a command that runs no job; import Beam only if needed."""
    from shardmill.transforms.stores.clients import using_options

    parser = Parser(prog=f"shardmill {command}")
    options = None if words is REACHED else store_options(parser, to_words(words), paths)
    with raise_job_errors(), nullcontext() if options is None else using_options(options):
        yield


def to_words(beam_options: Sequence[str]) -> list[str]:
    """Return Beam's options as a list; raise a UserError for one text."""
    if isinstance(beam_options, str):
        raise UserError(f"beam_options={beam_options!r} is a text; expected a list such as ['--runner', 'FlinkRunner']")
    return list(beam_options)


def ignore(_: str) -> None:
    """Drop a message that the result also has."""
