"""A workload whose share of core time with Python's lock is known: bench_lock.py must find what this prints.

Each thread calls functions that release the lock and functions that hold it, in turns of random length, and measures
the core time of both. It prints the share of core time with the lock.
"""

import argparse
import hashlib
import random
import threading
import time

_BLOCK = bytes(32 << 20)  # hashlib releases the lock for it; of small blocks, the calls would take the lock for long


def work(seconds: float, held_share: float, seed: int, spent: list[float]) -> None:
    """Take `seconds` of core time, of which `held_share` with the lock; add both parts to `spent`."""
    chosen = random.Random(seed)
    while time.thread_time() < seconds:
        turn = chosen.uniform(0.1, 0.6)
        start = time.thread_time()
        while time.thread_time() - start < turn * held_share:
            sum(range(1000))
        middle = time.thread_time()
        while time.thread_time() - middle < turn * (1 - held_share):
            hashlib.sha256(_BLOCK)
        spent[0] += middle - start
        spent[1] += time.thread_time() - middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held_share", type=float, default=0.5, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="of core time of each thread (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    args = parser.parse_args()
    spent = [[0.0, 0.0] for _ in range(args.threads)]
    threads = [
        threading.Thread(target=work, args=(args.seconds, args.held_share, seed, parts))
        for seed, parts in enumerate(spent)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = sum(parts[0] for parts in spent)
    print(held / (sum(map(sum, spent)) or 1))


if __name__ == "__main__":
    main()
