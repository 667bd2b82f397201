"""shardmill.transforms.layout.options: what is said of what was skipped."""

import pytest

from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.options import skipped_notices


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (".npy file", ".npy files"),
        ("folder without images", "folders without images"),
        ("member whose name has no key and suffix", "members whose name has no key and suffix"),
    ],
)
def test_many_of_a_kind(kind: str, said: str) -> None:
    summary = InputSummary(skipped={kind: (3, "a")})
    assert skipped_notices(summary) == [f"passed over 3 {said}, such as 'a'"]
