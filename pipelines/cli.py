"""The command line: `shardmill COMMAND …`; each command is imported when it is called."""

import difflib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import shardmill
from shardmill.errors import CorruptDataError, JobError, UserError
from shardmill.printable import printable

if TYPE_CHECKING:
    from pipelines.kinds.records_config import Route

_GARBAGE_OBJECTS = 50_000  # new ones, at which garbage is looked for; 700 by default
_USAGE = """usage: shardmill COMMAND ...

  images    turn a tree of images, or a manifest that lists them, into TFRecord shards
  arrays    turn .npy arrays into TFRecord shards
  csv       turn CSV or TSV files into TFRecord shards
  jsonl     turn JSON lines into TFRecord shards
  parquet   turn Parquet files into TFRecord shards
  text      turn text into TFRecord shards, an example a line or a file
  reshard   deal existing TFRecords out to balanced, shuffled shards
  inspect   show what is in a data set
  verify    re-read a data set and check every shard

shardmill COMMAND --help tells more."""


def _images(arguments: Sequence[str]) -> int:
    from pipelines.commands import run_images

    return run_images.main(arguments)


def _arrays(arguments: Sequence[str]) -> int:
    from pipelines.commands import run_arrays

    return run_arrays.main(arguments)


def _records(route: "Route") -> Callable[[Sequence[str]], int]:
    def command(arguments: Sequence[str]) -> int:
        from pipelines.commands import run_records

        return run_records.main(route, arguments)

    return command


def _inspect(arguments: Sequence[str]) -> int:
    from pipelines.commands import inspect as run_inspect

    return run_inspect.main(arguments)


def _verify(arguments: Sequence[str]) -> int:
    from pipelines.commands import verify

    return verify.main(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "images": _images,
    "arrays": _arrays,
    "csv": _records("csv"),
    "jsonl": _records("jsonl"),
    "parquet": _records("parquet"),
    "text": _records("lines"),
    "reshard": _records("tfrecords"),
    "inspect": _inspect,
    "verify": _verify,
}


def program() -> NoReturn:
    """The `shardmill` command: `main`, in a process of which nothing is needed before or after.

    Importing Beam makes some hundred thousand objects that all stay: looking through them for garbage again and again, and taking
    them apart one by one at the end, took half a second of every command.
    """
    gc.set_threshold(_GARBAGE_OBJECTS)
    status = main()
    print(end="", flush=True)  # unlike sys.stdout.flush(), no error where there is none
    print(end="", file=sys.stderr, flush=True)
    os._exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 done, 1 failed, 2 a user's mistake, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from shardmill.spans import COMPILED

        print(f"shardmill {shardmill.__version__}{'' if COMPILED else ', without its compiled module: slower'}")
        return 0
    command = _COMMANDS.get(arguments[0])
    if command is None:
        near = difflib.get_close_matches(arguments[0], _COMMANDS, 1)
        hint = f"did you mean {near[0]}? The commands are" if near else "expected"
        return _complain(f"unknown command {arguments[0]!r}; {hint} {', '.join(_COMMANDS)}", 2)
    try:
        status = command(arguments[1:])
        print(end="", flush=True)  # here, where it is known what to do if nobody reads it
        return status
    except UserError as error:
        return _complain(str(error), 2, error, arguments)
    except (JobError, CorruptDataError) as error:
        return _complain(str(error), 1, error, arguments)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except BrokenPipeError:  # as in `shardmill inspect … | head`: nobody reads what is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _complain(sentence: str, status: int, error: Exception | None = None, arguments: Sequence[str] = ()) -> int:
    if error is not None and "--debug" in arguments:
        raise error
    print(f"shardmill: error: {printable(sentence)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    program()
