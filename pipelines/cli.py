"""The command line: `shardmill COMMAND …`; each command is imported when it is called."""

import gc
import os
import resource
import sys
from collections.abc import Sequence
from traceback import format_exception
from typing import NoReturn

import shardmill
from shardmill.errors import CorruptDataError, JobError, UserError, handle_sigterm, interruption_status
from shardmill.installed import check_beam, describe_lack_of_memory, run_one_command
from shardmill.pipelines.commands.frame import Command
from shardmill.pipelines.config.flags import Parser, parse_output_options
from shardmill.pipelines.jobs import registry
from shardmill.pipelines.reports import log
from shardmill.text import did_you_mean, mask_urls

_GARBAGE_OBJECTS = 250_000  # new ones, at which garbage is looked for; 700 by default. A job makes as many in all
# NumPy's OpenBLAS starts threads to multiply matrices of floats, which nothing here does, and they spin. Arrow's own
# allocator reserves 1 GiB of addresses, which `ulimit -v` counts.
_IS_LIMITED = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
_VARIABLES = {"OPENBLAS_NUM_THREADS": "1"} | ({"ARROW_DEFAULT_MEMORY_POOL": "system"} if _IS_LIMITED else {})

_SHELLS = ("bash", "zsh", "fish")
# Ends of the metavars of paths
_FOLDERS = ("DIR", "DIRECTORY")
_FILES = ("FILE", "PATH", "RECIPE", "PNG", "HTML", "DIR|RECIPE", "A B")


def find_command(name: str) -> Command:
    """Import and return the record of a command."""
    found = registry.load(name)
    if isinstance(found, Command):
        return found
    from shardmill.pipelines.commands.convert import convert_command

    return convert_command(found)


def parsers() -> dict[str, Parser]:
    """Return the parsers of all commands, by name."""
    return {name: find_command(name).parser() for name in registry.entries()}


def _run_completion(parser: Parser, arguments: Sequence[str]) -> int:
    shell = parser.parse_args(list(arguments)).shell
    import shtab

    log.print_output(shtab.complete(_root_parser(), shell))
    return 0


COMMANDS = (
    Command(
        name="completion",
        has_message_flags=False,
        description="Print the script with which a shell completes commands, flags, their values and paths.",
        examples=(
            "bash > ~/.local/share/bash-completion/completions/shardmill",
            "fish > ~/.config/fish/completions/shardmill.fish",
        ),
        add_arguments=lambda parser: parser.add_argument(
            "shell", metavar="SHELL", choices=_SHELLS, help=f"Name of the shell: {', '.join(_SHELLS)}"
        ),
        run=_run_completion,
    ),
)


def _root_parser() -> Parser:
    """Return a parser of the whole command line, for shtab: what completes a value depends on its metavar."""
    import shtab

    root = Parser(prog="shardmill")
    root.add_argument("-V", "--version", action="store_true", help="Show the version")
    commands = root.add_subparsers(metavar="COMMAND")
    entries = registry.entries()
    for name, own_parser in parsers().items():
        parser = commands.add_parser(name, help=entries[name].summary, parents=[own_parser], add_help=False)
        for action in parser._actions:
            metavar = str(action.metavar)
            if metavar.startswith("{"):
                action.choices = metavar[1:-1].split(",")
            elif metavar.endswith(_FOLDERS):
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif metavar.endswith(_FILES):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return root


def _usage() -> str:
    width = len("-V, --version")
    lines = ["usage: shardmill COMMAND …"]
    for title, group in registry.COMMANDS.items():
        lines += ["", f"{title}:", *(f"  {name:{width}}  {entry.summary}" for name, entry in group.items())]
    lines += ["  -V, --version  show the version"]
    return "\n".join([*lines, "", "Flags and examples of a command: shardmill COMMAND --help"])


def program() -> NoReturn:
    """Run the `shardmill` command and end the process at once.

    Beam's import makes some hundred thousand objects that stay. Collecting garbage among them and freeing them one by
    one at the end took half a second of every command; see also shardmill.installed.importing_beam.
    """
    run_one_command()
    gc.set_threshold(_GARBAGE_OBJECTS)
    os.environ.update(_VARIABLES | os.environ)
    sys.excepthook = lambda *error: print(mask_urls("".join(format_exception(*error))), file=sys.stderr)
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
        return _complain("interrupted", interruption_status(cause))
    except BrokenPipeError:  # as in `shardmill inspect … | head`: nobody reads what is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of a disk that is full, say, as a folder for the job's own files is made
        from shardmill.transforms.stores.protocol import os_error_text

        return _complain(os_error_text(error), 1, error, arguments)
    except (MemoryError, RuntimeError, ImportError) as error:
        if sentence := describe_lack_of_memory(error):
            return _complain(sentence, 1, error, arguments)
        raise


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
    name = arguments[0]
    if name not in (known := registry.entries()):
        hint = "the command comes before its flags; " if name.startswith("-") else ""
        hint = hint or did_you_mean(name, known, "did you mean {}? ")
        return _complain(f"unknown command {name!r}; {hint}`shardmill --help` lists all commands", 2)
    command = find_command(name)
    return command.run(command.parser(), arguments[1:])


def _complain(sentence: str, status: int, error: Exception | None = None, arguments: Sequence[str] = ()) -> int:
    if error is not None and "--debug" in arguments:
        raise error
    log.error(sentence, exit_status=status)
    return status


if __name__ == "__main__":
    program()
