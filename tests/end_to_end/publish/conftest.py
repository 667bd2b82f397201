"""Images, and what is published of them where nothing disturbs it."""

from pathlib import Path

import pytest

from tests.support.command import Process, image, tree_bytes, write_files
from tests.support.processes import OTHER, command


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(
        tmp_path_factory.mktemp("source") / "in",
        {f"{'ab'[n % 2]}/{n}.png": image(n, "PNG", (9 + n, 7)) for n in range(24)},
    )


@pytest.fixture(scope="session")
def versions(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What is published below --output where nothing disturbs it."""
    made = {}
    for version, flags in {"plain": (), "other": OTHER}.items():
        folder = tmp_path_factory.mktemp(version)
        assert Process(folder / "process", *command(source, folder / "out", *flags)).result().status == 0
        made[version] = tree_bytes(folder / "out")
    assert made["plain"].keys() == made["other"].keys()
    return made
