"""What is installed where no C compiler was found writes the same bytes, more slowly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_cases import DIGESTS
from tests.support.golden_inputs import write_inputs

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
CASES = (
    "images",
    "images-coco",
    "arrays",
    "audio",
    "csv",
    "csv-sequences",
    "jsonl",
    "parquet-images",
    "avro",
    "webdataset",
    "text",
    "text-packed",
    "reshard",
)
PROGRAM = """
import json, sys
sys.modules["shardmill._native"] = None  # whose import fails then
from shardmill.data import spans
from tests.support.golden_cases import digests
assert not spans.COMPILED
found = {case: digests(case) for case in sys.argv[1:]}
print(json.dumps(found))
"""


def test_every_route_writes_the_same_bytes(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *CASES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    golden = json.loads(DIGESTS.read_text())
    assert json.loads(done.stdout.splitlines()[-1]) == {case: golden[case] for case in CASES}
