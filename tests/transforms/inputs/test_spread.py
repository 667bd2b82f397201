"""The rows of a manifest, dealt out by name: equal ones meet, whatever batches they come in."""

from shardmill.transforms.columns.arrow import concatenate, to_batches
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.inputs.manifest_files import PARSED, drop_duplicates, part_count, rows_at_once, split_by_name

ROWS = [(f"{n % 90}.jpg", 0, None, "cat", None, n + 2, "{}", None, bytes([n % 90, n >= 180] * 8)) for n in range(200)]


def test_duplicates_are_found_in_any_order() -> None:
    """Rows 180 and later have a name that is there, and other columns."""
    outcomes = []
    for order, size in ((ROWS, 200), (ROWS[::-1], 7)):
        dealt: dict[int, list[object]] = {}
        for batch in to_batches(order, PARSED, size):
            for part, rows in split_by_name(batch, 5):
                dealt.setdefault(part, []).append(rows)
        assert len(dealt) == 5
        kept, rejects = zip(*(drop_duplicates(concatenate(parts), ["m.csv"]) for parts in dealt.values()), strict=True)
        assert kept[0].schema == FOUND
        lines = sorted(line for batch in kept for line in batch["line"].to_pylist())
        outcomes.append((lines, sorted((r.source, r.line or 0, r.reason) for some in rejects for r in some)))
    assert outcomes[0] == outcomes[1]
    lines, repeated = outcomes[0]
    assert lines == [*range(2, 92), *range(182, 202)]
    assert len(repeated) == 90
    assert repeated[0] == ("0.jpg", 92, "duplicate of line 2 in m.csv")


def test_parts_follow_the_bytes() -> None:
    assert [part_count(size) for size in (0, 1 << 20, 10 << 20, 1 << 40)] == [1, 1, 10, 1024]
    assert [rows_at_once(parts) for parts in (1, 100, 1024)] == [10_000, 25_600, 200_000]
