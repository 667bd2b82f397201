"""`shardmill sample` and `shardmill selftest`: write small inputs, and try an installation with them."""

import json
import shlex
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import chdir
from importlib.resources import files
from pathlib import Path
from typing import Any

from shardmill.errors import JobError, UserError
from shardmill.pipelines.commands.frame import Command, parse_messages, print_outcome
from shardmill.pipelines.config.flags import Parser
from shardmill.pipelines.jobs import registry as jobs
from shardmill.text import plural

_FOLDER = files(__package__)
# By kind: its data, and the command and flags that read them; tests/support/sample_files.py writes files.zip
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = json.loads((_FOLDER / "kinds.json").read_text())


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=tuple(KINDS), help=f"Kind of data: {', '.join(KINDS)}")
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="Folder to write to (default: .)")


def _run_sample(parser: Parser, arguments: Sequence[str]) -> int:
    args, _ = parse_messages(parser, arguments)
    what, command, flags = KINDS[args.kind]
    words = " ".join(f"--{name} {shlex.quote(value)}" for name, value in flags.items())
    text = f"{plural(write_sample(args.kind, args.folder), 'file')} in {args.folder}: {what}; read them with"
    print_outcome(args, f"{text}\nshardmill {command} {words} --output datasets --name {args.kind}")
    return 0


def write_sample(kind: str, folder: str) -> int:
    """Write the files of a kind below a local folder, and return their number; raise UserError rather than replace."""
    with (_FOLDER / "files.zip").open("rb") as file, zipfile.ZipFile(file) as archive:
        found = {Path(folder, name.removeprefix(f"{kind}/")): archive.read(name)
                 for name in archive.namelist() if name.startswith(f"{kind}/")}  # fmt: skip
    for path, data in found.items():
        if path.exists() and path.read_bytes() != data:
            raise UserError(f"{path} is there and differs from the sample; give another folder")
    for path, data in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return len(found)


def _run_selftest(parser: Parser, arguments: Sequence[str]) -> int:
    args, _ = parse_messages(parser, arguments)
    from shardmill.pipelines.commands.convert import convert
    from shardmill.pipelines.commands.verify import verify
    from shardmill.reading.plain_examples import examples

    with tempfile.TemporaryDirectory(prefix="shardmill-selftest-") as folder, chdir(folder):
        for kind, (_, command, flags) in KINDS.items():
            try:
                jobs.KINDS[command].check_installed()
            except UserError as error:  # an extra that is not installed
                print_outcome(args, f"{kind}: not tried: {error}")
                continue
            write_sample(kind, kind)
            with chdir(kind):
                made = convert(command, output="datasets", name=kind, splits="train=0.8,test=0.2", **flags)
                faults = verify(made.directory).faults
                read = sum(1 for split in made.splits for _ in examples(made.directory, split=split))
            if faults or made.rejected or not read or read != sum(made.splits.values()):
                raise JobError(
                    f"{kind}: {made.splits} written, {made.rejected} rejected, {read} read, faults: {faults}"
                )
            print_outcome(args, f"{kind}: {plural(read, 'example')} converted, verified and read")
    print_outcome(args, "This installation works")
    return 0


COMMANDS = (
    Command(
        name="sample",
        description="Write small inputs to try commands with: those that the documentation's pages name.",
        epilog="Files that are there and equal stay. Exit status: 0 done; 2 a mistake, or a file that differs.",
        examples=("photos", "boxes tryout"),
        add_arguments=_add_arguments,
        run=_run_sample,
    ),
    Command(
        name="selftest",
        description="Convert, verify and read small inputs of each kind, in a temporary folder and under a minute.",
        epilog="Exit status: 0 the installation works; 1 it does not.",
        examples=("--quiet",),
        add_arguments=lambda parser: None,
        run=_run_selftest,
    ),
)
