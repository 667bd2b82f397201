"""Completion in bash, zsh and fish, each on a terminal of its own; `make check NAME=shells` runs this."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.command import SOURCE

SHOW = "\x18"  # Ctrl-X prints the line that is being edited, between the marks, and empties it
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile"],
        "source SCRIPT; bind 'set bell-style none'; bind -x '\"\\C-x\": show'; "
        'show() { echo "<<$READLINE_LINE>>"; READLINE_LINE=; }',
    ),
    "zsh": (
        ["zsh", "-f"],
        "fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -d $PWD/dump; unsetopt beep; "
        'show() { print -r -- "<<$BUFFER>>"; BUFFER=; }; zle -N show; bindkey "^X" show',
    ),
    "fish": (
        ["fish", "--no-config", "--interactive"],
        'source SCRIPT; bind \\cx \'echo "<<"(commandline)">>"; commandline ""\'',
    ),
}
CASES = {
    "a command": ("shardmill ima", "shardmill images "),
    "another command": ("shardmill rollb", "shardmill rollback "),
    "a flag": ("shardmill csv --num_sh", "shardmill csv --num_shards "),
    "a flag of one command": ("shardmill verify --repa", "shardmill verify --repair "),
    "a value": ("shardmill csv --compression gz", "shardmill csv --compression gzip "),
    "a file": ("shardmill csv --input eve", "shardmill csv --input events.csv "),
    "a folder, not a file": ("shardmill csv --output dat", "shardmill csv --output datasets/"),
    "a folder of a data set": ("shardmill verify dat", "shardmill verify datasets/"),
    "a shell": ("shardmill completion zs", "shardmill completion zsh "),
}


@pytest.fixture(scope="module", params=SHELLS)
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A terminal with a shell that has read the script of completion."""
    folder = tmp_path_factory.mktemp(request.param)
    command = [sys.executable, "-m", "shardmill", "completion", request.param]
    script = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, check=True)
    (folder / "functions").mkdir()
    for name in ("script", "functions/_shardmill", "events.csv", "data.csv"):
        (folder / name).write_bytes(script.stdout)
    (folder / "datasets").mkdir()
    program, settings = SHELLS[request.param]
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "LANG": "C.UTF-8"}
        os.execvpe(program[0], program, environment)
    os.write(descriptor, f"{settings.replace('SCRIPT', str(folder / 'script'))}; echo rea''dy\n".encode())
    read_until(descriptor, "ready")
    yield descriptor
    os.close(descriptor)
    os.waitpid(pid, 0)


def read_until(descriptor: int, pattern: str) -> re.Match[str]:
    """Read the terminal until it shows `pattern`."""
    text = ""
    while (found := re.search(pattern, text)) is None:
        text += os.read(descriptor, 1 << 16).decode(errors="replace")
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_shell_completes(terminal: int, case: str) -> None:
    typed, completed = CASES[case]
    os.write(terminal, f"{typed}\t{SHOW}".encode())
    line = read_until(terminal, r"<<(shardmill [^>]*)>>")[1]
    assert line.rstrip() == completed.rstrip()
