"""Nothing large travels between steps: Flink's buffers, Dataflow's shuffle and the memory of every runner ask for small
elements, however large the input is. Here an element may be a hundredth of what it may be in a job."""

import json
import random
from pathlib import Path

import pytest

from tests.support.command import Run, image, write_files
from tests.support.elements import Sizes, sizes_of_elements
from transforms.inputs import blocks
from transforms.sharding import cuts
from transforms.workers import batches

MOST = 4 << 20  # of any element
SMALL = 20_000  # about, of those that grow with the input: references, tasks, keys
GROWING = ("RecordBatch", "tuple", "BlockRef", "dict of tuple")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many files with long names, long columns of a manifest, many rows."""
    root = tmp_path_factory.mktemp("inputs")
    picture = image(1)
    names = [f"ant/{'a' * 100}{n:04}.png" for n in range(300)]
    write_files(root / "images", dict.fromkeys(names, picture))
    lines = [
        json.dumps({"file_name": name, "label": "ant", "caption": random.Random(n).randbytes(200).hex()})
        for n, name in enumerate(names)
    ]
    (root / "images" / "meta.jsonl").write_text("\n".join(lines))
    write_files(root / "tables", {f"{'t' * 100}{n:03}.csv": f"x,y\n{n},a\n".encode() for n in range(200)})
    write_files(root / "rows", {"rows.csv": b"x,y\n" + b"".join(b"%d,%d\n" % (n, n % 7) for n in range(20_000))})
    return root


def sizes(run: Run, monkeypatch: pytest.MonkeyPatch, *words: object) -> Sizes:
    for module in (batches, blocks):
        monkeypatch.setattr(module, "ELEMENT_BYTES", SMALL)
    monkeypatch.setattr(cuts, "_KEYS_AT_ONCE", 500)
    with sizes_of_elements() as found:
        result = run(*words, "--name", "n")
    assert result.status == 0, result.err
    return found


@pytest.mark.parametrize(
    "words",
    [
        ("images", "--input", "images", "--num_shards", 2),
        ("images", "--manifest", "images/meta.jsonl", "--num_shards", 2),
        ("images", "--manifest", "images/meta.jsonl", "--num_shards", 2, "--no_shuffle", "--balance", "bytes"),
        ("csv", "--input", "tables", "--num_shards", 20),
        ("csv", "--input", "rows", "--num_shards", 3, "--balance", "bytes", "--block_size", 20_000),
        ("text", "--input", "rows/*", "--num_shards", 3, "--block_size", 20_000),
    ],
)
def test_elements_are_small(
    run: Run, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    monkeypatch.chdir(inputs)
    found = sizes(run, monkeypatch, *words, "--output", tmp_path)
    largest = {kind: max(some) for kind, some in found.items()}
    assert max(largest.values()) < MOST, largest
    growing = {kind: size for kind, size in largest.items() if kind in GROWING}
    assert max(growing.values()) < 1.5 * SMALL, growing
