"""A store that answers after 30 ms: images against the loop that reads and writes one at a time, and a CSV against the
same on a local disk.

A store is another machine, so beside the CSV it has half of the cores for itself, and the job has the others, on the
local disk too. The images share all cores with it.

First, what the store itself can serve: asked by a few threads that do nothing else, without the wait, in requests and
megabytes a second. It is a process of Python on this machine.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from bench_rebuild import reaching, requests, store
from measure import BENCHMARKS, SHARDMILL, Measured, halves, machine, make_images, make_table, measure
from options import add_folder, add_rounds

_ASKING = 4  # threads
_PART = 8 << 20


def ask(address: str, request: bytes, times: int) -> int:
    """Send a request again and again on one connection; how many bytes came back."""
    url = urlsplit(address)
    came = 0
    with socket.create_connection((url.hostname, url.port)) as connection, connection.makefile("rb") as answers:
        for _ in range(times):
            connection.sendall(request)
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            came += len(answers.read(length))
    return came


def capacity(address: str, bucket: Path) -> str:
    """What a store without a wait serves."""
    small, large = bucket / "small", bucket / "large"
    small.write_bytes(bytes(25_000))
    large.write_bytes(bytes(_PART))
    said = []
    for name, request, times, sent in (
        ("GET of 25 KB", f"GET /{bucket.name}/small HTTP/1.1\r\n\r\n".encode(), 500, 0),
        ("GET of 8 MiB", f"GET /{bucket.name}/large HTTP/1.1\r\n\r\n".encode(), 20, 0),
        (
            "PUT of 8 MiB",
            f"PUT /{bucket.name}/put HTTP/1.1\r\nContent-Length: {_PART}\r\n\r\n".encode() + bytes(_PART),
            20,
            _PART,
        ),
    ):
        start = time.perf_counter()
        with ThreadPoolExecutor(_ASKING) as pool:
            came = sum(pool.map(ask, [address] * _ASKING, [request] * _ASKING, [times] * _ASKING))
        seconds = time.perf_counter() - start
        asked = times * _ASKING
        said.append(f"{name}: {asked / seconds:,.0f} a second, {(came + asked * sent) / seconds / 1e6:,.0f} MB/s")
    for path in (small, large, bucket / "put"):
        path.unlink()
    return "; ".join(said)


def images_row(data: Path, images: int, looped: int, stack: ExitStack) -> str:
    """Images in the store to shards there; and what the loop takes for some of them."""
    bucket = data / "store"
    shutil.rmtree(bucket, ignore_errors=True)
    shutil.copytree(make_images(data, images, kilobytes=25), bucket / "in", copy_function=os.link)
    address = store(data, stack)
    loop = [sys.executable, str(BENCHMARKS / "loop_store.py"), address, bucket.name, str(looped)]
    told = json.loads(subprocess.run(loop, check=True, stdout=subprocess.PIPE, text=True).stdout)
    each = told["seconds"] / looped
    print(f"the loop: {looped:,} images in {told['seconds']:.1f} s, {each * 1000:.1f} ms each", file=sys.stderr)
    requests(address)
    where = ["--input", f"s3://{bucket.name}/in", "--output", f"s3://{bucket.name}/out", "--name", "bench"]
    run = measure([SHARDMILL, "images", *where, *reaching(address)])
    asked = requests(address)
    shutil.rmtree(bucket)
    return (
        f"{images:,} images of 25 KB: {run.seconds:.1f} s, {run.core_seconds:.1f} s of all cores, {asked};"
        f" {each * images / run.seconds:.1f} times as fast as the loop, {each * 1000:.1f} ms an image of {looped:,}"
    )


def table_rows(data: Path, rows: int, shards: int, rounds: int, stack: ExitStack) -> str:
    """A CSV there to shards there, and the same on a local disk."""
    table = make_table(data, "csv", rows).resolve()
    bucket = table.parent / "store"
    shutil.rmtree(bucket, ignore_errors=True)
    (bucket / "in").mkdir(parents=True)
    (bucket / "in" / table.name).hardlink_to(table)
    runs: dict[str, list[Measured]] = {"local disk": [], "object store": []}
    own, others = halves()
    address = store(bucket.parent, stack, cores=others)
    places = {"local disk": (str(bucket), []), "object store": (f"s3://{bucket.name}", reaching(address))}
    for number in range(rounds):
        for name, (where, flags) in places.items():
            shutil.rmtree(bucket / "out", ignore_errors=True)
            words = ["--input", f"{where}/in", "--output", f"{where}/out", "--name", "bench"]
            asked = ["--num_shards", str(shards)] if shards else []
            measured = measure([SHARDMILL, "csv", *words, *asked, *flags], own)
            print(f"round {number + 1}: {name}: {measured.seconds:.1f} s", file=sys.stderr)
            runs[name].append(measured)
    shutil.rmtree(bucket)
    said = f"the job on {len(own)} of the cores, the store on {len(others)} others" if own else "on the same core"
    lines = [
        f"{rows:,} rows of CSV, {said}; median of {rounds}\n",
        "| | seconds | speed of the local disk | seconds of all cores | peak memory, MB |",
        "|---|---:|---:|---:|---:|",
    ]
    local = statistics.median(run.seconds for run in runs["local disk"])
    for name, measures in runs.items():
        seconds = statistics.median(run.seconds for run in measures)
        cores = statistics.median(run.core_seconds for run in measures)
        peak = max(run.peak_bytes for run in measures) / 1e6
        lines.append(f"| {name} | {seconds:.1f} | {local / seconds:.2f} | {cores:.1f} | {peak:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_000, help="of about 25 KB, 0 for none (default: %(default)s)")
    parser.add_argument("--looped", type=int, default=500, help="of them, by the loop (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=30_000_000, help="of 68 bytes, 0 for none (default: %(default)s)")
    parser.add_argument("--shards", type=int, default=0, help="in each split (default: chosen by their size)")
    add_rounds(parser, 1)
    add_folder(parser)
    args = parser.parse_args()

    data = args.folder.resolve()
    (data / "capacity").mkdir(parents=True, exist_ok=True)
    print(f"{machine()}\n", flush=True)
    with ExitStack() as stack:
        print(f"the store without a wait: {capacity(store(data, stack, 0), data / 'capacity')}\n", flush=True)
    (data / "capacity").rmdir()
    if args.images:
        with ExitStack() as stack:
            print(f"{images_row(data, args.images, args.looped, stack)}\n", flush=True)
    if args.rows:
        with ExitStack() as stack:
            print(table_rows(data, args.rows, args.shards, args.rounds, stack))


if __name__ == "__main__":
    main()
