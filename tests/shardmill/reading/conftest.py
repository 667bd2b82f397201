"""Rows and images that tests of `load` read by the name of what they are; one that needs others says so itself."""

from pathlib import Path

import pytest


@pytest.fixture
def rows(rows_in_two_splits: Path) -> Path:
    return rows_in_two_splits


@pytest.fixture
def flowers(flowers_in_four_shards: Path) -> Path:
    return flowers_in_four_shards
