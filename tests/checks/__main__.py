"""Run the checks of table.toml, and make the environments that they need; `make check` lists both.

It imports the standard library only, because it makes the environments of everything else.

    python -m tests.checks                      list the checks
    python -m tests.checks flink spark          run two checks, after making what they need
    python -m tests.checks --ci 'make lint'     run commands, then all checks of CI, two at a time; .ci/run
    python -m tests.checks --environment lean   make an environment, and print its folder of programs
    python -m tests.checks --lock               write constraints.txt anew
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("table.toml").read_text())
ENVIRONMENTS, CHECKS = TABLE["environments"], TABLE["checks"]
LAST_BEGIN_S = 70 * 60  # CI has 90 minutes; on a machine four times slower than usual a check may take 20
LOGS = ROOT / "build" / "checks"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other checks, which run at the same time, from installing the same things."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{name.replace('/', '-')}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def programs_of(name: str) -> Path:
    """Return the folder of programs of an environment, such as .venv-lean/bin."""
    return ROOT / (".venv" if name == "test" else f".venv-{name}") / "bin"


def make_environment(name: str) -> Path:
    """Make an environment, unless it is there and its row, pyproject.toml and constraints.txt are the same."""
    programs, row = programs_of(name), ENVIRONMENTS.get(name, {})
    stamp = programs.parent / "made_of.txt"
    files = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    made_of = hashlib.sha256(repr(row).encode() + b"".join(file.read_bytes() for file in files)).hexdigest()
    with locked(f"environment-{name}"):
        if stamp.exists() and stamp.read_text() == made_of:
            return programs
        pins = [] if row.get("unpinned") else ["--constraint", "constraints.txt"]
        if name == "uv":
            run([sys.executable, "-m", "venv", "--clear", programs.parent])
            run([programs / "python", "-m", "pip", "install", "--quiet", *pins, "uv"])
        else:
            uv = make_environment("uv") / "uv"
            install = [uv, "pip", "install", "--quiet", "--python", programs / "python", *pins]
            install += ["--compile-bytecode"] if row.get("compile", True) else []
            run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, programs.parent])
            groups = [word for group in row.get("groups", ()) for word in ("--group", group)]
            shardmill = shardmill_of(row)
            if row.get("dependencies", True):
                run([*install, *groups, *shardmill])
            else:
                if groups or row.get("packages"):
                    run([*install, *groups, *row.get("packages", ())])
                run([*install, "--no-deps", *shardmill])
        stamp.write_text(made_of)
    return programs


def shardmill_of(row: dict[str, Any]) -> list[str]:
    """Return the words that install shardmill as a row of the table says."""
    extras = f"[{','.join(row['extras'])}]" if "extras" in row else ""
    return {"editable": ["-e", f".{extras}"], "copy": [f".{extras}"], "": []}[row.get("shardmill", "")]


def run(command: Sequence[object]) -> None:
    subprocess.run([*map(str, command)], cwd=ROOT, check=True)


def install_packages(check: dict[str, Any]) -> None:
    """Install Debian's packages whose programs (names or patterns of paths) are missing, and packages of npm."""
    npm = {"npm": "npm"} if check.get("npm") else {}
    needed = {**check.get("debian", {}), **npm}
    missing = [package for program, package in needed.items() if not shutil.which(program) and not glob(program)]
    if missing:
        with locked("debian"):
            run(["apt-get", "update", "-qq"])
            run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing])
    for folder in check.get("npm", ()):
        done, lock = ROOT / folder / "node_modules" / "installed", ROOT / folder / "package-lock.json"
        with locked(folder):
            if not done.exists() or done.stat().st_mtime < lock.stat().st_mtime:
                run(["npm", "ci", "--prefix", folder, "--silent", "--no-audit", "--no-fund"])
                done.touch()


def run_check(name: str) -> None:
    """Run a check's commands; raises CalledProcessError at the first that fails."""
    check = CHECKS[name]
    install_packages(check)
    text = "\n".join(["set -euo pipefail", *check["commands"]])
    used = set(re.findall(r"\{([\w-]+)\}", text + repr(check.get("variables", {}))))
    folders = {each: str(make_environment(each)) for each in sorted(used & {*ENVIRONMENTS, "uv"})}

    def fill(words: str) -> str:
        return re.sub(r"\{([\w-]+)\}", lambda found: folders.get(found[1], found[0]), words)

    variables = {key: fill(value) for key, value in check.get("variables", {}).items()}
    subprocess.run(["bash", "-c", fill(text)], cwd=ROOT, env=os.environ | variables, check=True)


def run_ci(commands: Sequence[str], checks: Sequence[str], last_begin_s: float = LAST_BEGIN_S) -> bool:
    """Run commands one after another, the last beside checks, two at a time; return True if everything passed.

    A check waits for other programs half of its time. Output is printed when a command ends: all of it if it failed.
    """
    begin, failed, not_run = time.monotonic(), [], []

    def run_one(command: str, number: int) -> None:
        if number and time.monotonic() - begin >= last_begin_s:
            not_run.append(command)
            return
        since, log = time.monotonic(), LOGS / f"{re.sub('[^a-z-]+', '-', command)}.log"
        with log.open("wb") as output:
            status = subprocess.run(command, shell=True, cwd=ROOT, stdout=output, stderr=output).returncode
        text = log.read_text(errors="replace")
        end = f"passed: {command}" if status == 0 else f"FAILED with status {status}; repeat it alone with: {command}"
        shown = text if status else "".join(text.splitlines(keepends=True)[-2:])
        print(f"{shown}{end} ({time.monotonic() - since:.0f} s)\n", end="", flush=True)
        if status:
            failed.append(command)

    LOGS.mkdir(parents=True, exist_ok=True)
    for command in commands[:-1]:
        run_one(command, 0)
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(run_one, [*commands[-1:], *checks], range(len(checks) + 1)):
            pass
    print(f"CI took {(time.monotonic() - begin) / 60:.1f} minutes")
    for command in failed:
        print(f"failed: {command}")
    for command in not_run:
        print(f"not run, because {last_begin_s / 60:.0f} minutes had passed: {command}")
    return not failed


def list_checks() -> str:
    """Return the table of checks: what each does, and what it needs beside .venv."""
    lines = ["Run a check with: make check NAME=…", ""]
    for name, check in CHECKS.items():
        needs = [f"{check['minutes']} min", f"{check['disk']} MB", *check.get("debian", {}).values()]
        needs += ["npm"] if check.get("npm") else []
        lines.append(f"{name:13}{check['does']} ({', '.join(needs)}){'' if check.get('ci', True) else '; not in CI'}")
    return "\n".join(lines)


def write_lock() -> None:
    """Write constraints.txt: one version of each package that the pinned environments have, newest where it is new."""
    pinned = [row for row in ENVIRONMENTS.values() if not row.get("unpinned")]
    extras = sorted({word for row in pinned for word in row.get("extras", ())})
    groups = sorted({word for row in pinned for word in row.get("groups", ())})
    options = [word for extra in extras for word in ("--extra", extra)]
    options += [word for group in groups for word in ("--group", group)]
    command = [make_environment("uv") / "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    run([*command, "--output-file", "constraints.txt", *options, "pyproject.toml"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a check")
    parser.add_argument("--ci", nargs="+", metavar="COMMAND")
    parser.add_argument("--environment", metavar="NAME")
    parser.add_argument("--lock", action="store_true")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in CHECKS]
    if unknown or args.environment not in {None, *ENVIRONMENTS}:
        print(f"there is no {', '.join(unknown) or args.environment}\n{list_checks()}", file=sys.stderr)
        return 2
    if args.ci:
        checks = [f"make check NAME={name}" for name, check in CHECKS.items() if check.get("ci", True)]
        return 0 if run_ci(args.ci, checks) else 1
    if args.lock:
        write_lock()
    elif args.environment:
        print(make_environment(args.environment))
    elif not args.names:
        print(list_checks())
    try:
        for name in args.names:
            print(next(line for line in list_checks().splitlines() if line.startswith(f"{name} ")), flush=True)
            run_check(name)
    except subprocess.CalledProcessError as error:
        print(f"failed: make check NAME={name}", file=sys.stderr)
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
