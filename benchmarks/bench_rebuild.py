"""What a rebuild costs where little changed: `--reuse LATEST` against a full build of the same files, and with --store
the same on an object store that answers after some milliseconds.

Both are processes of their own with start-up included, two seconds of Beam in each; their outputs are compared byte for
byte.
"""

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import tables
from measure import BENCHMARKS, ENVIRONMENT, SHARDMILL, Measured, make_images, measure, staying_on
from options import add_folder, add_rounds, add_write

_MILLISECONDS = 30  # that a store takes to answer
_VERSION = "1.0.1"


def changed(images: Path, fraction: float, rounds: int) -> int:
    """Give some of the images, the same ones in each round, the bytes of others; returns how many.

    Their time is a minute ago: what changed a moment ago is read again the next time, too.
    """
    names = sorted(images.glob("*/*.jpg"))
    some = random.Random(0).sample(names, max(1, round(len(names) * fraction)))
    for path in some:
        data = random.Random(f"{path} {rounds}").choice(names).read_bytes()
        other = path.with_suffix(".new")
        other.write_bytes(data)
        when = time.time_ns() - 60 * 10**9 + rounds
        os.utime(other, ns=(when, when))
        other.replace(path)
    return len(some)


def command(source: str, output: str, flags: list[str]) -> list[str]:
    """The conversion, but for its version and what it takes from an older one."""
    where = ["--input", source, "--output", output, "--name", "bench"]
    return [SHARDMILL, "images", *where, "--resize", "224x224", "--splits", "train=0.9,test=0.1", *flags]


def store(folder: Path, stack: ExitStack, milliseconds: float = _MILLISECONDS, cores: Collection[int] = ()) -> str:
    """Start a store over `folder`, on some of the cores if they are given; returns its address.

    Whoever is measured signs no hash of what is sent, as botocore does not where it sends by https.
    """
    aws = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "config"
    aws.write_text("[default]\ns3 =\n  payload_signing_enabled = false\n")
    ENVIRONMENT["AWS_CONFIG_FILE"] = str(aws)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(BENCHMARKS / "slow_store.py"), str(folder), str(port), str(milliseconds)],
        preexec_fn=staying_on(cores),
    )
    stack.callback(server.wait)
    stack.callback(server.terminate)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    return f"http://127.0.0.1:{port}"


def reaching(address: str) -> list[str]:
    """The flags that reach a store."""
    known = {"access_key_id": "key", "secret_access_key": "secret", "region_name": "us-east-1"}
    return [f"--s3_{name}={value}" for name, value in {"endpoint_url": address, **known}.items()]


def requests(address: str) -> str:
    """What was asked of a store since this was last called."""
    with urllib.request.urlopen(f"{address}/requests") as answer:
        counts = json.load(answer)
    alone = f"one alone for {counts['seconds_alone']:.1f} s"
    return f"{counts['requests']:,} requests, up to {counts['at_once']} at once, {alone}"


def differing(one: Path, other: Path) -> list[str]:
    """The files of two folders that are not the same."""
    names = {str(path.relative_to(folder)) for folder in (one, other) for path in folder.rglob("*") if path.is_file()}
    return sorted(
        name
        for name in names
        if not (one / name).is_file()
        or not (other / name).is_file()
        or (one / name).read_bytes() != (other / name).read_bytes()
    )


def table(runs: dict[str, list[Measured]]) -> str:
    """A row each: medians of the rounds, and their part of the first row's."""
    first, rows = next(iter(runs.values())), []
    for name, rounds in runs.items():
        cells = []
        for field in ("seconds", "core_seconds"):
            value, base = (statistics.median(getattr(run, field) for run in found) for found in (rounds, first))
            cells += [f"{value:.1f}", f"{value / base:.1%}"]
        rows.append([name, *cells, f"{max(run.peak_bytes for run in rounds) / 1e6:.0f}"])
    of = "of a full build"
    return tables.table(["", "seconds", of, "core seconds", of, "peak memory, MB"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000, help="of about 25 KB (default: %(default)s)")
    parser.add_argument("--changed", type=float, default=0.01, help="part of them (default: %(default)s)")
    add_rounds(parser, 1)
    parser.add_argument("--store", action="store_true", help=f"a store that answers after {_MILLISECONDS} ms")
    add_folder(parser)
    add_write(parser)
    args = parser.parse_args()

    made = make_images(args.folder, args.images, kilobytes=25)
    bucket = (args.folder / "rebuild").resolve()
    shutil.rmtree(bucket, ignore_errors=True)
    bucket.mkdir(parents=True)
    images = bucket / "in"
    shutil.copytree(made, images, copy_function=os.link)
    runs: dict[str, list[Measured]] = {}
    with ExitStack() as stack:
        address = store(bucket.parent, stack) if args.store else ""
        beam = reaching(address) if address else []
        where = f"s3://{bucket.name}" if args.store else str(bucket)
        first = command(f"{where}/in", f"{where}/reused", beam)
        measure([*first, "--reuse", "record"])
        asked = dict[str, str]()
        if address:
            requests(address)
        for number in range(args.rounds):
            some = changed(images, args.changed, number)
            for name, output, flags in (
                ("a full build", "full", []),
                ("--reuse 1.0.0", "reused", ["--reuse", "1.0.0"]),
            ):
                shutil.rmtree(bucket / output / "bench" / _VERSION, ignore_errors=True)
                words = command(f"{where}/in", f"{where}/{output}", [*beam, "--version", _VERSION, *flags])
                measured = measure(words)
                print(f"round {number + 1}: {name}: {measured.seconds:.1f} s", file=sys.stderr)
                runs.setdefault(name, []).append(measured)
                if address:
                    asked[name] = requests(address)
            if wrong := differing(*(bucket / output / "bench" / _VERSION for output in ("full", "reused"))):
                sys.exit(f"the bytes differ: {', '.join(wrong[:3])}")
    shutil.rmtree(bucket, ignore_errors=True)
    what = f"{args.images:,} JPEGs, `--resize 224x224`, {some:,} changed"
    text = f"{what}; medians of {args.rounds} rounds:\n\n{table(runs)}"
    for name, said in asked.items():
        text += f"\n\n{name}, in the last round: {said}"
    tables.publish(text, args.write)


if __name__ == "__main__":
    main()
