"""Orders: permutations with random access, how even they are, and their division among ranks and workers."""

import itertools
import math
import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shardmill import GlobalBatches, Order, UserError

numbers = st.integers(0, 2**64 - 1)


@given(st.integers(0, 3000), numbers, numbers, st.integers(1, 400), st.integers(1, 100))
def test_an_order_is_a_permutation(n: int, seed: int, epoch: int, block: int, window: int) -> None:
    order = Order(n, seed, epoch, block, window)

    found = order[:]

    assert found.dtype == np.int64
    assert sorted(found.tolist()) == list(range(n))
    assert len(order) == n


@given(st.integers(1, 10**18), numbers, st.sampled_from([1, 7, 1 << 20]), st.data())
def test_positions_by_number_array_and_slice_are_the_same(n: int, seed: int, block: int, data: Any) -> None:
    order = Order(n, seed, 1, block)
    positions = data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=8))
    start = positions[0] % n

    found = order[positions]

    assert [order[position] for position in positions] == found.tolist()
    assert order[np.array(positions)[:, None]].tolist() == found[:, None].tolist()
    assert order[start : start + 3].tolist() == [order[place] for place in range(start, min(start + 3, n))]
    assert order[np.array(start, np.uint64)] == order[start - n] == order[np.int64(start)]


def test_iteration_and_steps_of_slices() -> None:
    order = Order(40_000, 5, block=10)

    assert list(order) == order[:].tolist() == order[::-1][::-1].tolist()
    assert list(Order(0, 0)) == order[[]].tolist() == []


# They hold on every machine and with every version of NumPy: who resumes elsewhere has the same order
GOLDEN = [
    (Order(10, 0), [4, 3, 1, 6, 0, 7, 2, 8, 9, 5]),
    (Order(10, 0, epoch=1), [8, 2, 9, 0, 4, 1, 3, 5, 6, 7]),
    (Order(10, 1), [1, 2, 4, 9, 0, 8, 6, 7, 5, 3]),
    (Order(10**6, 0), [346891, 711182, 669865, 384809, 481519]),
    (Order(2**63 - 1, 2**64 - 1, 2**64 - 1), [3865901788216277254, 4460765983341859567, 5286805023918790775]),
    (Order(10**6, 0, block=256), [112376, 941129, 363626, 40813, 182982]),
    (Order(100, 0, block=8, window=2), [54, 55, 32, 52, 33, 36, 38, 34, 35, 50]),
]


@pytest.mark.parametrize(("order", "first"), GOLDEN, ids=str)
def test_orders_never_change(order: Order, first: list[int]) -> None:
    assert order[: len(first)].tolist() == first
    assert pickle.loads(pickle.dumps(order)) == order


def chi_square(counts: NDArray[Any], expected: float) -> float:
    """Return the distance of counts from what is expected, in standard deviations of a fair shuffle."""
    freedom = counts.size - 1
    return float((((counts - expected) ** 2).sum() / expected - freedom) / math.sqrt(2 * freedom))


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_each_permutation_of_few_examples_is_as_frequent(n: int) -> None:
    each = 5
    codes = [tuple(Order(n, seed)) for seed in range(each * math.factorial(n))]

    counts = np.zeros(math.factorial(n))
    counts[: len(set(codes))] = list(Counter(codes).values())
    assert abs(chi_square(counts, each)) < 4


@pytest.mark.parametrize("n", [10, 1500])
def test_pairs_of_positions_are_as_frequent(n: int) -> None:
    pairs = np.concatenate([np.stack([order[:-1], order[1:]]) for order in (Order(n, 9, e)[:] for e in range(1000))], 1)
    bins = 10
    first, second = pairs * bins // n
    counts = np.bincount(first * bins + second, minlength=bins * bins).astype(float)
    if n == bins:  # no example is its own neighbour
        counts = counts.reshape(bins, bins)[~np.eye(bins, dtype=bool)]

    assert abs(chi_square(counts, counts.sum() / counts.size)) < 4


def test_epochs_and_seeds_are_unrelated() -> None:
    orders = [Order(10_000, seed, epoch)[:] for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]]

    correlations = np.corrcoef([*orders, np.arange(10_000)])[np.triu_indices(len(orders) + 1, 1)]
    assert np.abs(correlations).max() < 0.05


def test_a_window_holds_few_blocks() -> None:
    order = Order(10_240 + 77, 3, block=64, window=8)
    starts = [*range(0, len(order) - 512, 512), len(order)]  # the last window holds the rest
    assert len(starts) == 21
    for start, end in itertools.pairwise(starts):
        runs = 1 + np.count_nonzero(np.diff(np.sort(order[start:end])) > 1)
        assert runs <= (end - start) // 64 + 2  # where another block fills up what the last one lacks
        assert np.count_nonzero(np.diff(order[start:end]) == 1) < 12


def test_mistakes() -> None:
    for arguments, message in [
        ((-1, 0), "n is -1; expected 0 to"),
        ((1 << 63, 0), "n is 9223372036854775808; expected 0 to"),
        ((5, -1), "seed is -1; expected 0 to"),
        ((5, 0, 1 << 64), "epoch is 18446744073709551616"),
        ((5, 0, 0, 0), "block is 0; expected 1 to"),
        ((5, 0, 0, 1, 0), "window is 0; expected 1 to"),
    ]:
        with pytest.raises(UserError, match=message):
            Order(*arguments)
    for position in (5, -6, [0, 5], [-6, 2], np.array(7)):
        with pytest.raises(IndexError, match=r"^position (5|-6|7) in an order of 5 examples$"):
            Order(5, 0)[position]
    with pytest.raises(IndexError):
        Order(0, 0)[0]
    with pytest.raises(TypeError, match="positions are integers or slices"):
        Order(5, 0)[[0.5]]
    with pytest.raises(TypeError):
        Order(5, "0")  # type: ignore[arg-type]


# The division


def read_by_workers(batches: GlobalBatches, rank: int, ranks: int, workers: int, first: int) -> Sequence[list[int]]:
    """The batches of a rank, from its workers in turns, as PyTorch's DataLoader takes them."""
    queues = [list(batches.steps(worker, workers, first)) for worker in range(workers)]
    taken = []
    while any(queues):
        for queue in queues:
            if queue:
                taken.append(batches.positions(queue.pop(0), rank, ranks).tolist())
    return taken


@given(
    st.integers(0, 300), st.integers(1, 40), st.sampled_from(["drop", "pad"]), st.integers(1, 9), st.integers(1, 5),
    st.integers(0, 10),
)  # fmt: skip
def test_global_batches_are_the_same_for_any_ranks_and_workers(
    n: int, size: int, remainder: Any, ranks: int, workers: int, first: int
) -> None:
    batches = GlobalBatches(n, size, remainder)
    ranks, first = min(ranks, size), min(first, len(batches))

    parts = [read_by_workers(batches, rank, ranks, workers, first) for rank in range(ranks)]

    found = [
        list(itertools.chain(*of_ranks)) for of_ranks in zip(*parts, strict=True)
    ]  # and each rank has as many steps
    assert found == [list(range(step * size, step * size + size)) for step in range(first, len(batches))]
    assert len(batches) == (n // size if remainder == "drop" else math.ceil(n / size))
    lengths = {len(part) for of_rank in parts for part in of_rank}
    assert lengths <= {size // ranks, -(-size // ranks)}


def test_padding_begins_the_order_again() -> None:
    batches = GlobalBatches(10, 4, "pad")

    last = batches.positions(2)

    assert (last % 10).tolist() == [8, 9, 0, 1]
    assert (last >= 10).tolist() == [False, False, True, True]
    assert len(GlobalBatches(10, 4, "drop")) == 2


def test_mistakes_in_batches() -> None:
    batches = GlobalBatches(10, 4, "drop")
    with pytest.raises(UserError, match="world_size is 5, more ranks than the 4 examples of a global batch"):
        batches.positions(0, 4, 5)
    with pytest.raises(UserError, match="rank is 2; expected 0 to 1"):
        batches.positions(0, 2, 2)
    with pytest.raises(UserError, match="worker is 3; expected 0 to 2"):
        batches.steps(3, 3)
    with pytest.raises(UserError, match="first is 3; expected 0 to 2"):
        batches.steps(first=3)
    with pytest.raises(UserError, match="batch_size is 0"):
        GlobalBatches(10, 0, "drop")
    with pytest.raises(UserError, match="remainder is 'keep'; expected 'drop' or 'pad'"):
        GlobalBatches(10, 4, "keep")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="step 2 of 2 batches"):
        batches.positions(2)
