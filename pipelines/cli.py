"""The command line: `shardmill COMMAND …`; each command is imported when it is called."""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import NoReturn

import shardmill
from shardmill.errors import INTERRUPTED, TERMINATED, CorruptDataError, JobError, Terminated, UserError, handle_sigterm
from shardmill.installed import check_beam, importing_beam, run_one_command
from shardmill.pipelines.config.flags import Parser, parse_output_options
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.pipelines.reports import log
from shardmill.text import did_you_mean

Command = Callable[[Sequence[str]], int]
_GARBAGE_OBJECTS = 250_000  # new ones, at which garbage is looked for; 700 by default. A job makes as many in all
# NumPy's OpenBLAS starts a thread for each core, which spins for a tenth of a second, to multiply matrices of floats.
# Nothing here does.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "1")


_GROUPS = {  # of commands that do not convert, by the headings of `shardmill --help`
    "Look at data sets": {
        "inspect": "show what is in a data set",
        "verify": "re-read a data set and check every shard",
        "index": "write the position of each record, for random access",
        "versions": "list the versions of a data set",
        "diff": "show what differs between two versions",
        "report": "write an HTML report about a version",
    },
    "Rebuild data sets and manage their versions": {
        "rebuild": "rebuild data sets from recipes if anything changed",
        "retain": "delete expired versions, and what dead jobs left",
        "rollback": "point LATEST at an older version",
        "tag": "name a version, or move or delete its name",
        "accept": "publish a version that failed its checks, as it is",
    },
}
_COMMANDS = {name: summary for group in _GROUPS.values() for name, summary in group.items()}
_SHELLS = ("bash", "zsh", "fish")
# Ends of the metavars of paths
_FOLDERS = ("DIR", "DIRECTORY")
_FILES = ("FILE", "PATH", "RECIPE", "PNG", "HTML", "DIR|RECIPE", "A B")
_SHARED_MODULES = {
    "accept": "versions",
    "diff": "report",
    "rollback": "versions",
    "tag": "versions",
}  # of pipelines.commands; others: by name


def parsers() -> dict[str, Parser]:
    """Return the parsers of all commands, by name."""
    from shardmill.pipelines.commands.convert import convert_parser

    return {
        **{name: convert_parser(kind) for name, kind in KINDS.items()},
        **{name: getattr(_module_of(name), f"{name}_parser")() for name in _COMMANDS},
        "completion": completion_parser(),
    }


def completion_parser() -> Parser:
    """Return the parser of `shardmill completion`."""
    parser = Parser(
        prog="shardmill completion",
        description="Print the script with which a shell completes commands, flags, their values and paths.",
        examples=(
            "bash > ~/.local/share/bash-completion/completions/shardmill",
            "fish > ~/.config/fish/completions/shardmill.fish",
        ),
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"Name of the shell: {', '.join(_SHELLS)}")
    return parser


def _run_completion(arguments: Sequence[str]) -> int:
    shell = completion_parser().parse_args(list(arguments)).shell
    import shtab

    log.print_output(shtab.complete(_root_parser(), shell))
    return 0


def _root_parser() -> Parser:
    """Return a parser of the whole command line, for shtab: what completes a value depends on its metavar."""
    import shtab

    root = Parser(prog="shardmill")
    root.add_argument("-V", "--version", action="store_true", help="Show the version")
    commands = root.add_subparsers(metavar="COMMAND")
    summaries = _summaries()
    for name, own_parser in parsers().items():
        parser = commands.add_parser(name, help=summaries[name], parents=[own_parser], add_help=False)
        for action in parser._actions:
            metavar = str(action.metavar)
            if metavar.startswith("{"):
                action.choices = metavar[1:-1].split(",")
            elif metavar.endswith(_FOLDERS):
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif metavar.endswith(_FILES):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return root


def _summaries() -> dict[str, str]:
    """Return a phrase about each command."""
    converting = {name: kind.summary for name, kind in KINDS.items()}
    return {**converting, **_COMMANDS, "completion": "print the script that completes this command line in a shell"}


def _module_of(name: str) -> ModuleType:
    return import_module(f"shardmill.pipelines.commands.{_SHARED_MODULES.get(name, name)}")


def _command(name: str) -> Command | None:
    if name in _COMMANDS:
        with importing_beam(for_local_files=False):  # verify does
            command: Command = getattr(_module_of(name), f"run_{name}")
        return command
    if name == "completion":
        return _run_completion
    if name not in KINDS:
        return None
    from shardmill.pipelines.commands import convert

    return partial(convert.run_convert, KINDS[name])


def _usage() -> str:
    summaries = _summaries()
    width = len("-V, --version")
    groups = {"Convert data to TFRecord shards": [*KINDS], **_GROUPS, "This program": ["completion"]}
    lines = ["usage: shardmill COMMAND …"]
    for title, names in groups.items():
        lines += ["", f"{title}:", *(f"  {name:{width}}  {summaries[name]}" for name in names)]
    lines += ["  -V, --version  show the version"]
    return "\n".join([*lines, "", "Flags and examples of a command: shardmill COMMAND --help"])


def program() -> NoReturn:
    """Run the `shardmill` command and end the process at once.

    Beam's import makes some hundred thousand objects that stay. Collecting garbage among them and freeing them one by
    one at the end took half a second of every command; see also shardmill.installed.importing_beam.
    """
    run_one_command()
    gc.set_threshold(_GARBAGE_OBJECTS)
    os.environ.setdefault(*_ONE_THREAD)
    status = main()
    print(end="", flush=True)  # unlike sys.stdout.flush(), no error if stdout is closed
    print(end="", file=sys.stderr, flush=True)
    os._exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, one of EXIT_STATUSES."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output_options = parse_output_options(arguments)
    log.set_up(output_options.log_format, output_options.quiet)
    try:
        try:
            with handle_sigterm():
                status = _run(arguments)
        except SystemExit:  # raised by --help of a command
            log.print_output("", end="")
            raise
        except ModuleNotFoundError:
            check_beam()
            raise
        log.print_output("", end="")  # here, where a closed pipe is handled
        return status
    except (UserError, JobError, CorruptDataError) as error:
        return _complain(str(error), error.exit_status, error, arguments)
    except KeyboardInterrupt as cause:
        return _complain("interrupted", TERMINATED if isinstance(cause, Terminated) else INTERRUPTED)
    except BrokenPipeError:  # as in `shardmill inspect … | head`: nobody reads what is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of a disk that is full, say, as a folder for the job's own files is made
        from shardmill.transforms.stores.protocol import os_error_text

        return _complain(os_error_text(error), 1, error, arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError("the folder that this command runs in was deleted; change to another one") from None
    if len(arguments) > 1 and arguments[0] == "help":
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        log.print_output(_usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from shardmill.data.spans import COMPILED

        log.print_output(
            f"shardmill {shardmill.__version__}{'' if COMPILED else ', without its compiled module: slower'}"
        )
        return 0
    command = _command(arguments[0])
    if command is None:
        hint = "the command comes before its flags; " if arguments[0].startswith("-") else ""
        hint = hint or did_you_mean(arguments[0], _summaries(), "did you mean {}? ")
        return _complain(f"unknown command {arguments[0]!r}; {hint}`shardmill --help` lists all commands", 2)
    return command(arguments[1:])


def _complain(sentence: str, status: int, error: Exception | None = None, arguments: Sequence[str] = ()) -> int:
    if error is not None and "--debug" in arguments:
        raise error
    log.error(sentence, exit_status=status)
    return status


if __name__ == "__main__":
    program()
