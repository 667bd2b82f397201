"""Run all benchmarks of docs/benchmarks.md, one after another, and show the minutes of each.

A script that fails is named at the end, and the status is 1; the others run all the same.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from measure import BENCHMARKS, SHARDMILL

# Each script, and its arguments for `--quick`. Its defaults are the sizes of the page.
SCRIPTS = {
    "bench_images.py": "--images 500 --rounds 1",
    "bench_verify.py": "--images 100 --rows 2000 --rounds 1",
    "bench_readers.py": "--examples 1024 --rows 2048 --rounds 1 --seconds 0.1",
}
# Tokenizers are not part of an installation without extras.
WITH_EXTRAS = {"bench_tokens.py"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything on tiny inputs; write nothing")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS), help="(default: all)")
    args = parser.parse_args()
    failed, started = [], time.monotonic()
    for name in args.only:
        start = time.monotonic()
        print(f"== {name}", flush=True)
        words = [*SCRIPTS[name].split(), "--folder", "bench-data/quick"] if args.quick else ["--write"]
        extras = str(Path(sys.executable).with_name("shardmill"))
        environment = {**os.environ, "SHARDMILL": extras if name in WITH_EXTRAS else SHARDMILL}
        done = subprocess.run([sys.executable, str(BENCHMARKS / name), *words], env=environment, check=False)
        print(f"== {name}: {(time.monotonic() - start) / 60:.1f} minutes\n", flush=True)
        if done.returncode:
            failed.append(name)
    print(f"{(time.monotonic() - started) / 60:.1f} minutes in all")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
