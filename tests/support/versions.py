"""Published versions of a small data set, for tests of what is done with whole versions."""

import os
from pathlib import Path

from shardmill.data.features import Feature
from tests.support.small_data_set import edit_manifest, write_data_set

FEATURES = (Feature("x", "int64", "tensor", (), True),)


def make_version(parent: Path, version: str, latest: bool = False, age: float = 0.0, examples: int = 3) -> Path:
    """A published version of data set `n`, so many seconds old; its directory."""
    directory = write_data_set(parent / version, FEATURES, [{"x": [number]} for number in range(examples)], 2)

    def name(manifest: dict[str, object]) -> None:
        manifest["version"] = version

    edit_manifest(directory, name)
    for path in directory.iterdir():
        status = path.stat()
        os.utime(path, (status.st_atime - age, status.st_mtime - age))
    if latest:
        (parent / "LATEST").write_text(f"{version}\n")
    return directory
