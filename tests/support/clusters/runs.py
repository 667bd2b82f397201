"""Golden cases on a real Flink cluster, again and again, undisturbed or with something killed at a random moment.

`python -m tests.support.clusters.runs 50` runs them undisturbed, on Flink as it comes; `--task_managers 3` adds one.
With `--kill taskmanager`, `--kill worker` or both, in turns, SIGKILL meets one at a random moment while a job runs, on
a cluster with a spare TaskManager and a restart strategy.
Workers are threads of the launcher, or where one is to be killed processes that each TaskManager starts.
Each run must end with the digests of golden.json, or, where something was killed, within two minutes with a sentence
and without any file, after which the same command must succeed. Status 1 if any did otherwise.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.clusters.flink import ROOMY, FlinkCluster
from tests.support.clusters.installed import boot
from tests.support.golden_cases import DIGESTS, command_from, digests_in, of_any_input
from tests.support.golden_inputs import write_inputs

_CASES = ("csv", "images-splits", "csv-label", "images-stratified")
_MOST_SECONDS = 120.0  # from what is killed to a job that has ended
_JOBS_A_CLUSTER = 6  # each leaves memory of its TaskManagers for Java to collect, see docs/flink.md
_RESTARTS = {
    "restart-strategy": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "5",
    "restart-strategy.fixed-delay.delay": "1 s",
    **ROOMY,
    "heartbeat.timeout": "10000",
    "heartbeat.interval": "2000",
}


def launch(
    cluster: FlinkCluster, case: str, inputs: Path, output: Path, flags: Sequence[str]
) -> "subprocess.Popen[str]":
    """The command of a case, begun."""
    from_folder = ["-m", "shardmill", *command_from(inputs, case), "--output", str(output)]
    words = [sys.executable, *from_folder, *cluster.flags(), *flags]
    env = {**os.environ, "PYTHONPATH": cluster.worker_environment()["PYTHONPATH"]}
    return subprocess.Popen(words, cwd=inputs, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill_one(cluster: FlinkCluster, what: str, chance: random.Random) -> str:
    """SIGKILL a TaskManager, in whose place another starts, or a worker; says which, "" where there is none."""
    if what == "taskmanager":
        name = chance.choice(
            [
                name
                for name, process in cluster.processes.items()
                if name.startswith("taskmanager") and process.poll() is None
            ]
        )
        cluster.kill(name)
        cluster.add_task_manager()
        return name
    workers = [pid for pid in cluster.workers() if b"sdk_worker_main" in _command_line(pid)]
    if not workers:
        return ""
    worker = chance.choice(workers)
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    return f"worker {worker}"


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def outcome(status: int, said: str, output: Path, case: str, golden: dict[str, dict[str, str]]) -> str:
    """How a run ended: "equal", "failed clearly", or what is wrong with it."""
    found = digests_in(output)
    if status == 0:
        differ = [name for name, digest in golden[case].items() if found.get(name) != digest]
        is_equal = found.keys() == golden[case].keys() and of_any_input(found) == of_any_input(golden[case])
        return "equal" if is_equal else f"OTHER BYTES: {sorted(found.keys() ^ golden[case].keys()) or differ}"
    if found:
        return f"STRAY FILES: {sorted(found)[:5]}"
    last = said.strip().splitlines()[-1] if said.strip() else ""
    return "failed clearly" if last.startswith("shardmill: error: ") else f"NO SENTENCE: {last[:200]}"


def wait_for_job(cluster: FlinkCluster, process: "subprocess.Popen[str]", before: int) -> None:
    """Wait until there is a job more than `before`, and it runs, or until `process`, its launcher, has ended."""
    while process.poll() is None:
        jobs = cluster.ask("jobs/overview")["jobs"]
        if len(jobs) > before and any(job["state"] == "RUNNING" for job in jobs):
            return
        time.sleep(0.1)


def done_of(cluster: FlinkCluster) -> str:
    """How many of the tasks of the newest job are done."""
    tasks = max(cluster.ask("jobs/overview")["jobs"], key=lambda job: job["start-time"])["tasks"]
    return f"{tasks['finished']} of {tasks['total']} tasks done"


def main() -> int:
    """Run, count, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int)
    parser.add_argument("--kill", action="append", choices=("taskmanager", "worker"), help="in turns")
    parser.add_argument("--task_managers", type=int, help="of two slots each; 2, or 3 where one is to be killed")
    parser.add_argument("--case", action="append", help="of golden_cases; may be repeated")
    parser.add_argument("--parallelism", default="4,3,1", help="in turns")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no further run begins")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance, golden = random.Random(args.seed), json.loads(DIGESTS.read_text())
    task_managers, settings = args.task_managers or (3 if args.kill else 2), _RESTARTS if args.kill else {}
    cases, parallel = args.case or _CASES, args.parallelism.split(",")
    began, counts, typical, done = time.monotonic(), Counter[str](), dict[str, float](), 0
    with tempfile.TemporaryDirectory(prefix="shardmill-runs-") as temporary:
        root = Path(temporary)
        write_inputs(root / "inputs")
        while done < args.runs and time.monotonic() - began < args.seconds:
            with FlinkCluster(root / f"cluster{done}", task_managers, settings) as cluster:
                for _ in range(min(_JOBS_A_CLUSTER, args.runs - done)):
                    if time.monotonic() - began >= args.seconds:
                        break
                    case, parallelism = cases[done % len(cases)], parallel[done % len(parallel)]
                    kill = args.kill[done % len(args.kill)] if args.kill else ""
                    processes = cluster.worker_processes(found) if kill == "worker" and (found := boot()) else None
                    flags = [*(processes or ["--environment_type", "LOOPBACK"]), "--parallelism", parallelism]
                    output, killed, done_then, running, at = root / f"out{done}", "", "", 0.0, 0.0
                    before, started = len(cluster.ask("jobs/overview")["jobs"]), time.monotonic()
                    process = launch(cluster, case, root / "inputs", output, flags)
                    if kill:
                        wait_for_job(cluster, process, before)
                        running = time.monotonic()
                        with suppress(subprocess.TimeoutExpired):
                            process.wait(chance.uniform(0.0, 0.9 * typical.get(case, 5.0)))
                        while process.poll() is None and not killed:
                            done_then = done_of(cluster)
                            killed = kill_one(cluster, kill, chance)
                            at = time.monotonic()
                            time.sleep(0 if killed else 0.1)
                    said, _ = process.communicate()
                    ended = time.monotonic()
                    came = outcome(process.returncode, said, output, case, golden)
                    if came == "equal":
                        typical[case] = ended - running
                    elif came == "failed clearly" and not killed:
                        came = f"FAILED: {said.strip().splitlines()[-1][:300]}"
                    elif killed and ended - at > _MOST_SECONDS:
                        came += f" AFTER {ended - at:.0f} s"
                    if came == "failed clearly":
                        again = launch(cluster, case, root / "inputs", output, flags)
                        later, _ = again.communicate()
                        came += f", then {outcome(again.returncode, later, output, case, golden)}"
                    counts[came + (f" though a {kill} was killed" if killed else "")] += 1
                    done += 1
                    what = f", {killed} killed {at - running:.1f} s after it ran, {done_then}" if killed else ""
                    print(f"{done} {case} at {parallelism}: {came}, {ended - started:.1f} s{what}", flush=True)
                    if came not in ("equal", "failed clearly, then equal"):
                        print(said[-2000:], flush=True)
    for came, number in sorted(counts.items()):
        print(f"{number:4} {came}")
    return int(any(word.isupper() for came in counts for word in came.replace(":", "").split()))


if __name__ == "__main__":
    sys.exit(main())
