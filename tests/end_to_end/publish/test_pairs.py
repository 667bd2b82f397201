"""Builders that start at once on local disks; on object stores they are in stores/test_leases.py."""

from pathlib import Path

import pytest

from tests.support.pairs import make_source, race


@pytest.mark.parametrize("versions", [("1.0.0", "1.0.0"), ("1.0.0", "1.0.1")], ids=["one version", "two versions"])
def test_pairs_of_builders(tmp_path: Path, versions: tuple[str, str]) -> None:
    source = make_source(tmp_path / "in")
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        race(folder, source, str(folder / "out"), versions)
