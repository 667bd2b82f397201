"""Commands whose publications are stopped as they rename a shard."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.command import Process, Result

SHARD = re.compile(r"n-train\.tfrecord-\d{5}-of-00004|\d{5}=00004\.train")
OTHER = ("--seed", "7")  # so that the newer version has other bytes in files of the same names


def command(source: Path, output: Path, *flags: object) -> tuple[object, ...]:
    return ("images", "--input", source, "--output", output, "--name", "n", "--num_shards", "4", *flags)


def strike_at_rename(number: int, strike: Callable[[], None]) -> None:
    """Let `strike` be called in this process just before a shard's rename `number` of a publication."""
    replace = os.replace
    seen = []

    def struck(source: Any, destination: Any, **more: Any) -> None:
        if SHARD.fullmatch(os.path.basename(destination)) and "beam-temp-" in os.fspath(source):
            if "beam-temp-" not in os.fspath(destination):
                seen.append(destination)
            if len(seen) == number + 1:
                strike()
        replace(source, destination, **more)

    os.replace = struck  # type: ignore[assignment]


def stopped(folder: Path, before: Callable[[], None], *arguments: object) -> Result:
    return Process(folder / "process", *arguments, before=before).result()


def version_of(output: Path) -> Path:
    return output / "n" / "1.0.0"
