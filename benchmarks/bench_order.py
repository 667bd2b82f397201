"""Measure how good shuffled orders are: `shardmill.Order`, the buffer of tf.data, and mosaicml's py1e.

One epoch of examples that are stored sorted, as if their shards had not been shuffled when they were written:

* displacement: mean distance between place and position, in shares of the epoch; a third if shuffled fully
* correlation: of place and position
* neighbours: of 1,000 examples one after another in the epoch, the pairs of successive ones that were stored less
  than 1,000 places apart, as a multiple of chance
* chi-square: of 64 times 64 cells of place and position, divided by the degrees of freedom; 1 if shuffled fully
* classes: if a hundred classes are stored one after another, the deviation of a class's share of a batch of 256, as
  a multiple of chance
* shards: number of shards that 10,000 examples, one after another in the epoch, come from
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import shardmill

Places = NDArray[np.int64]


def shuffle_like_py1e(n: int, shard: int, span: int, seed: int) -> Places:
    """Shuffle shards, move each example by up to half of what a shard lacks of `span`, and sort by the result.

    This is the idea in the documentation of `streaming.base.shuffle.py1e`, for one canonical node.
    """
    rng = np.random.default_rng(seed)
    shards = rng.permutation(-(-n // shard))
    places = (shards[:, None] * shard + np.arange(shard)).ravel()
    places = places[places < n]
    reach = max(span - shard, 0) / 2
    return places[np.argsort(np.arange(n) + rng.uniform(-reach, reach, n))]


def shuffle_with_buffer(n: int, shard: int, buffer: int, interleaved: int, seed: int) -> Places:
    """Shuffle with tf.data: shards in random order, `interleaved` at once, and a buffer; 0 keeps the order of files."""
    import tensorflow as tf

    examples = tf.data.Dataset.range(n)
    if interleaved:
        starts = tf.data.Dataset.range(0, n, shard).shuffle(-(-n // shard), seed)
        examples = starts.interleave(
            lambda start: tf.data.Dataset.range(start, tf.minimum(start + shard, n)), interleaved, 16
        )
    shuffled = examples.shuffle(buffer, seed).batch(1 << 16)
    return np.concatenate(list(shuffled.as_numpy_iterator()))


def describe(order: Places, shard: int) -> list[float]:
    """Return the six numbers that the module explains."""
    n, positions = len(order), np.arange(len(order))
    cells = np.bincount(order * 64 // n * 64 + positions * 64 // n, minlength=64 * 64)
    expected = n / 64**2
    classes = (order * 100 // n)[: n // 256 * 256].reshape(-1, 256)
    shares = np.stack([np.bincount(batch, minlength=100) for batch in classes])
    near = np.abs(np.diff(order)) < 1000
    windows = order[: n // 10_000 * 10_000].reshape(-1, 10_000) // shard
    return [
        float(np.abs(order - positions).mean() / n),
        float(np.corrcoef(order, positions)[0, 1]),
        float(near.mean() / (1998 / n)),
        float(((cells - expected) ** 2).sum() / expected / 63**2),
        float(shares.std() / np.sqrt(256 * 0.01 * 0.99)),
        float(np.mean([len(np.unique(window)) for window in windows])),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--shard", type=int, default=5_000, help="examples in a shard")
    options = parser.parse_args()
    n, shard = options.examples, options.shard
    orders: dict[str, Callable[[], Places]] = {
        "`Order(n, seed)`": lambda: shardmill.Order(n, 0)[:],
        "`Order(n, seed, block=256)`": lambda: shardmill.Order(n, 0, block=256)[:],
        "`Order(n, seed, block=1024)`": lambda: shardmill.Order(n, 0, block=1024)[:],
        "NumPy's `permutation`": lambda: np.random.default_rng(0).permutation(n),
        "like py1e, `shuffle_block_size=262144`": lambda: shuffle_like_py1e(n, shard, 1 << 18, 0),
        "tf.data: shards shuffled, 16 interleaved, a buffer of 10,000": lambda: shuffle_with_buffer(
            n, shard, 10_000, 16, 0
        ),
        "tf.data: a buffer of 10,000": lambda: shuffle_with_buffer(n, shard, 10_000, 0, 0),
    }
    print(f"{n:,} examples in shards of {shard:,}\n")
    print("| order | displacement | correlation | neighbours | chi-square | classes | shards | ns an example |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, make in orders.items():
        start = time.perf_counter()
        order = np.asarray(make())
        seconds = time.perf_counter() - start
        assert len(np.unique(order)) == len(order) == n
        *statistics, shards = describe(order, shard)
        shown = " | ".join(f"{value:,.3f}" for value in statistics)
        print(f"| {name} | {shown} | {shards:,.0f} | {seconds / n * 1e9:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
