"""The index of records, read by NVIDIA DALI on the CPU and by the package `tfrecord`, which
`make check NAME=dali` installs in an environment of its own: DALI has hundreds of megabytes.

DALI_PYTHON names the interpreter.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

import shardmill
from shardmill.pipelines import cli
from tests.support.command import REPOSITORY
from tests.support.pages import blocks, write_page_data

PAGE = REPOSITORY / "docs/shard-index.md"
TELL = """
import json
found = [int(label) for label in labels.as_array().ravel()]
print(json.dumps([pipeline.epoch_size("reader"), [list(image.shape()) for image in images], found]))
"""
PACKAGE = """
import glob, json
from tfrecord.reader import tfrecord_loader
from tfrecord.tools.tfrecord2idx import create_index
found = []
for shard in sorted(glob.glob("datasets/flowers/1.0.0/flowers-train.tfrecord-*")):
    index = shard.replace("1.0.0/", "1.0.0/index/") + ".idx"
    create_index(shard, "its.idx")
    assert open("its.idx").read() == open(index).read()
    for worker in range(3):
        found += [int(row["label"][0]) for row in tfrecord_loader(shard, index, {"label": "int"}, shard=(worker, 3))]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images in four shards, with an index, as the page makes them."""
    folder = write_page_data(tmp_path_factory.mktemp("dali"))
    words = ("--input", folder / "photos", "--output", folder / "datasets", "--name", "flowers", "--num_shards", "4")
    assert cli.main(["images", *map(str, words), "--index"]) == 0
    return folder


def labels(folder: Path) -> list[int]:
    return [int(example["label"]) for example in shardmill.examples(folder / "datasets/flowers", "train")]


def said(folder: Path, code: str) -> str:
    command = [os.environ["DALI_PYTHON"], "-c", code]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_dali_reads_the_records(folder: Path) -> None:
    (code,) = (block.text for block in blocks(PAGE) if block.file_name == "read_dali.py")
    number, shapes, found = json.loads(said(folder, code + TELL))
    assert number == 40
    assert shapes == [[64, 64, 3]] * 8
    assert found == labels(folder)[:8]


def test_the_package_reads_the_parts_of_workers(folder: Path) -> None:
    assert json.loads(said(folder, PACKAGE)) == labels(folder)
