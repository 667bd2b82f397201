"""The most frequent reasons, whatever else there is."""

from shardmill.transforms.workers.rejects import Reason, ReasonCounter


def test_few_reasons_are_counted() -> None:
    counter = ReasonCounter(2)
    for source, reason, records in (("a", "x", 1), ("b", "y", 5), ("c", "x", 1), ("d", "z", 5)):
        counter.add(reason, records, source)
    found = counter.most_frequent()
    assert found == Reason("x", "a", 2, 2)
    assert list(counter.by_records(9).items()) == [("x", 2), ("y", 5), ("z", 5)]
    assert counter.by_records(2) == {"y": 5, "z": 5}
    assert counter.by_records(1) == {"y": 5}
    assert not counter.has_dropped


def test_of_very_many_reasons_the_frequent_ones_stay() -> None:
    counter = ReasonCounter(10)
    for row in range(10_000):
        counter.add("often" if row % 3 == 0 else f"once {row}", 1, str(row))
    found = counter.most_frequent()
    assert found is not None
    assert (found.text, found.rejects, found.source) == ("often", 3334, "0")
    assert counter.has_dropped
    assert len(counter.by_records(1000)) <= 20
    assert counter.is_counted("often")
    assert not counter.is_counted("once 5000")


def test_none() -> None:
    assert ReasonCounter().most_frequent() is None
