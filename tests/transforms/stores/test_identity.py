"""A file's identity changes with it, and is none where a change might not show."""

import pytest

from shardmill.transforms.stores.streams import file_identity

NOW = 1e9


def test_size_and_stamp_make_an_identity() -> None:
    found = {
        (size, stamp): file_identity(size, stamp, NOW, NOW) for size in (5, 51) for stamp in ("crc32c:a", "b", "1b")
    }

    assert len(set(found.values())) == 6
    assert None not in found.values()
    assert file_identity(5, "b", 0, NOW) == found[5, "b"], "a checksum or an ETag holds, whenever the file was written"


@pytest.mark.parametrize(
    ("modified", "known"),
    [(NOW - 3, True), (NOW - 1, False), (NOW, False), (NOW + 9, False), (0.0, False)],
    ids=["long ago", "a moment ago", "now", "in the future", "nobody knows when"],
)
def test_a_time_counts_once_the_file_cannot_change_again_within_it(modified: float, known: bool) -> None:
    assert (file_identity(5, f"time:{modified}", modified, NOW) is not None) == known
