"""Run the benchmarks of docs/benchmarks.md, one after another, and show the minutes of each.

A script that fails is named at the end, and the status is 1; the others run all the same.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import tables
from measure import BENCHMARKS, SHARDMILL

# Each script, and its arguments for `--quick`. Its defaults are the sizes of the page.
SCRIPTS = {
    "bench_peers.py": "--images 20 --rows 100 --rounds 1",
    "bench_images.py": "--images 500 --rounds 1",
    "bench_tars.py": "--samples 100 --rounds 1",
    "bench_annotations.py": "--images 500 --rounds 1",
    "bench_exports.py": "--annotations 100 --rounds 1",
    "bench_tables.py": "--rows 4000 --loop_rows 1000 --beam_rows 1000 --rounds 1",
    "bench_wide.py": "--tables genes:10x50 --rounds 1",
    "bench_encoder.py": "--rows 1000 --rounds 1",
    "bench_text.py": "--rows 4000 --more_rows 8000 --loop_rows 1000 --rounds 1",
    "bench_tokens.py": "--rows 500 --loop_rows 100 --rounds 1",
    "bench_memory.py": "--small 0.01 --large 0.02 --rows 100 --rounds 1",
    "bench_transform.py": "--rows 1000 --rounds 1",
    "bench_startup.py": "--rounds 1",
    "bench_scale.py": "--rows 4000 --shards 20 --rounds 1",
    "bench_unchanged.py": "--number 100 --rounds 1",
    "bench_rebuild.py": "--images 100 --rounds 1",
    "bench_load.py": "--images 512 --rows 2000 --loop_examples 1000 --rounds 1",
    "bench_lock.py": "--scale 0.01 --rounds 1",
    "bench_readers.py": "--examples 1024 --rows 2048 --rounds 1 --seconds 0.1",
    "bench_verify.py": "--images 100 --rows 2000 --rounds 1",
    "bench_beam.py": "--rows 3000 --part_rows 1000 --rounds 1",
    "bench_reshard.py": "--rows 4000 --loop_rows 1000 --rounds 1",
    "bench_contents.py": "--rows 500000",
    "bench_near_duplicates.py": "--images 100 --hashes 1000 --rounds 1",
}
_MOST = 30 * 60  # seconds of a script; one that hangs is ended
# An installation without extras has no tokenizers, TensorFlow Transform and tfx-bsl.
WITH_EXTRAS = {
    "bench_lock.py",
    "bench_near_duplicates.py",
    "bench_reshard.py",
    "bench_tokens.py",
    "bench_transform.py",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything on tiny inputs; write nothing")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS), help="(default: all)")
    args = parser.parse_args()
    # Installations are no part of the minutes. If they fail, the scripts that need them will.
    subprocess.run([sys.executable, str(BENCHMARKS / "environments.py")], check=False)
    failed, minutes = [], dict[str, float]()
    for name in args.only:
        start = time.monotonic()
        print(f"== {name}", flush=True)
        words = [*SCRIPTS[name].split(), "--folder", "bench-data/quick"] if args.quick else ["--write"]
        extras = str(Path(sys.executable).with_name("shardmill"))
        variables = {**os.environ, "SHARDMILL": extras if name in WITH_EXTRAS else SHARDMILL}
        try:
            subprocess.run([sys.executable, str(BENCHMARKS / name), *words], env=variables, check=True, timeout=_MOST)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            failed.append(name)
            print(f"{name} failed: {error}")
        minutes[name] = (time.monotonic() - start) / 60
    print(f"\n{tables.table(['', 'minutes'], [[name, f'{value:.1f}'] for name, value in minutes.items()])}")
    print(f"{sum(minutes.values()):.1f} minutes in all")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
