"""No more bytes are held at once than there are, and all have their turn."""

import threading

import pytest

from shardmill.transforms.workers.resources import Budget


def held_at_most(size_bytes: int, takes: list[int]) -> tuple[int, int]:
    """The most bytes, and the most threads, that held some at once; `takes` as they were asked for."""
    budget, lock = Budget(size_bytes), threading.Lock()
    now: list[int] = []
    most = [0, 0]

    def hold(wanted: int) -> None:
        with budget.take(wanted):
            with lock:
                now.append(wanted)
                most[:] = max(most[0], sum(now)), max(most[1], len(now))
            threading.Event().wait(0.002)
            with lock:
                now.remove(wanted)

    threads = [threading.Thread(target=hold, args=(wanted,)) for wanted in takes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return most[0], most[1]


def test_no_more_is_held_than_there_is() -> None:
    most, threads = held_at_most(100, [7, 30, 60, 100, 1] * 20)
    assert 30 < most <= 100
    assert threads > 1


def test_what_is_more_than_all_is_held_alone() -> None:
    most, threads = held_at_most(10, [1000] * 5)
    assert (most, threads) == (1000, 1)


def test_whoever_asks_for_much_is_not_passed_by() -> None:
    budget = Budget(10)
    order: list[int] = []

    def hold(wanted: int) -> None:
        with budget.take(wanted):
            order.append(wanted)

    with budget.take(6):
        threads = [threading.Thread(target=hold, args=(wanted,)) for wanted in (10, 1)]  # the second would fit
        for number, thread in enumerate(threads):
            thread.start()
            while len(budget._waiting) <= number and not order:
                threading.Event().wait(0.001)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [10, 1]


def test_it_is_given_back_where_work_fails() -> None:
    budget = Budget(10)
    for _ in range(3):
        with pytest.raises(OSError, match="full"), budget.take(10):
            raise OSError("full")
    with budget.take(10):
        pass


def test_none_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="expected some"):
        Budget(0)
