"""The functions and modules that one image, or one row of a CSV file, passes on its way to a shard.

`python benchmarks/hops.py` converts a folder of one image and a table of one row, watches every call of a function of
this package, and counts the functions (hops) of each module of which an argument holds the item: its file name or its
text, directly, in a container, in a dataclass or in an Arrow array.
"""

import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from PIL import Image

ITEM = "zebra7f3"  # the image's name without suffix, and the row's text
PACKAGES = ("shardmill", "transforms", "pipelines")  # also as top-level packages, as they once were
DEPTH = 4  # containers within containers


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from list(value)[:50]
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, item.name, None) for item in fields(value))


def holds_item(value: Any, depth: int = DEPTH) -> bool:
    """Return True if `value` is, or holds, the item's name or text."""
    if isinstance(value, str):
        return ITEM in value
    if isinstance(value, bytes):
        return ITEM.encode() in value
    if isinstance(value, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
        return len(value) < 50 and ITEM in str(value.to_pylist())
    return depth > 0 and any(holds_item(part, depth - 1) for part in _parts(value))


def functions_passed(arguments: list[str]) -> dict[str, set[str]]:
    """Run a command in this process; return the functions that the item passes, by module of the package, in order."""
    from shardmill.pipelines import cli

    passed: dict[str, set[str]] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name, function = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
        if event != "call" or function in passed.get(name, ()) or name.partition(".")[0] not in PACKAGES:
            return
        count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
        if any(holds_item(frame.f_locals.get(local)) for local in frame.f_code.co_varnames[:count]):
            passed.setdefault(name, set()).add(function)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        status = cli.main(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if status:
        raise SystemExit(f"shardmill {' '.join(arguments)} ended with {status}")
    return passed


def main() -> None:
    """Print the hops and modules of both ways."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pictures").mkdir()
        Image.new("RGB", (8, 8)).save(folder / "pictures" / f"{ITEM}.png")
        (folder / "tables").mkdir()
        (folder / "tables/rows.csv").write_text(f"number,text\n1,{ITEM}\n")
        for kind, source in (("images", "pictures"), ("csv", "tables/rows.csv")):
            found = functions_passed(
                [kind, "--input", f"{folder / source}", "--output", f"{folder / 'out'}", "--name", kind, "--quiet"]
            )
            print(f"{kind}: {sum(map(len, found.values()))} hops in {len(found)} modules")
            for module, functions in found.items():
                print(f"  {module}: {len(functions)}")


if __name__ == "__main__":
    main()
