"""Run a command as a process of its own: how long it took and how much memory it held."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).parent
# `make bench` names the command of an installation without extras.
SHARDMILL = os.environ.get("SHARDMILL", str(Path(sys.executable).with_name("shardmill")))
# An installation keeps its modules compiled; whoever forbids that would time Python's compiler, ten seconds of it for
# TensorFlow.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
_PR_SET_CHILD_SUBREAPER = 36  # of prctl(2): processes that lose their parent become ours
_SAMPLE_SECONDS = 0.25
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes


@dataclass(frozen=True, slots=True)
class Measured:
    """A process from start to end, start-up included: seconds, those of all cores together, and peak resident memory in
    bytes.

    Where others use the machine too, the cores' seconds vary less.
    """

    seconds: float
    core_seconds: float
    peak_bytes: int


def measure(command: Sequence[str], cores: Collection[int] = ()) -> Measured:
    """Run `command`, on some of the cores if they are given; what it says is shown only if it fails, and then ends this
    process.

    The kernel starts a child's peak at its parent's size, so a caller must stay small: no NumPy, no TensorFlow.
    """
    with tempfile.TemporaryFile() as said:
        os.sync()  # what came before must not be written to the disk on this one's time
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=said, stderr=said, env=ENVIRONMENT, preexec_fn=staying_on(cores))
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{said.read().decode(errors='replace')}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _RSS_UNIT)


def measure_tree(command: Sequence[str]) -> Measured:
    """Run `command` like `measure`; all processes below it count, those that outlive it too.

    Their memory is read four times a second, and pages that they share count once. They end with the command.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, peak, me = resource.getrusage(resource.RUSAGE_CHILDREN), 0, os.getpid()
    with tempfile.TemporaryFile() as said:
        os.sync()
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=said, stderr=said, env=ENVIRONMENT)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SAMPLE_SECONDS)
                break
            peak = max(peak, resident_bytes(processes_of(me)[1:]))
        seconds = time.perf_counter() - start
        for left in processes_of(me)[1:]:
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, 0):
                pass
        if process.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{said.read().decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measured(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak)


def staying_on(cores: Collection[int]) -> Callable[[], None] | None:
    """What has a new process use these cores alone, where the system can; None where none are given."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return None
    return lambda: os.sched_setaffinity(0, cores)


def make_images(data: Path, images: int, kilobytes: float, links: bool = False) -> Path:
    """The folder that make_images.py makes; see there."""
    command = [
        sys.executable,
        str(BENCHMARKS / "make_images.py"),
        str(data),
        "--images",
        str(images),
        "--kilobytes",
        str(kilobytes),
    ]
    made = subprocess.run([*command, *(["--links"] if links else [])], check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


def make_table(data: Path, kind: str, rows: int) -> Path:
    """What make_table.py makes; see there."""
    command = [sys.executable, str(BENCHMARKS / "make_table.py"), str(data), "--kind", kind, "--rows", str(rows)]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())


def machine() -> str:
    """What the numbers were measured on, in a few words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{os.cpu_count()} cores, {memory / 2**30:.0f} GiB of memory, Python {sys.version.split()[0]}, {sys.platform}"
    )


def processes_of(process: int) -> list[int]:
    """Return the ids of a process and of all processes below it."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))):
            parents[int(name)] = int(fields[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def seconds_of_cores(processes: Collection[int]) -> float:
    """Return the core time that processes have taken so far, in seconds; children that have ended are included."""
    ticks = sum(sum(map(int, fields[11:15])) for process in processes if (fields := _stat(process)))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(processes: Collection[int]) -> int:
    """Return the memory that processes hold together; a page that several share counts once."""
    total = 0
    for process in processes:
        with suppress(OSError):  # it has ended
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat from `state` on; none if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
