"""Tests of transforms/stores/clients.py."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.options.pipeline_options import PipelineOptions, S3Options
from PIL import Image

from shardmill.errors import UserError
from shardmill.pipelines.cli import main
from shardmill.pipelines.jobs import launch
from shardmill.transforms.stores import clients, storage
from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.clients import set_options, using_options
from shardmill.transforms.stores.patience import VARIABLES
from tests.support.buckets import free_port

_PREFIX = "shardmilltest://"


class PrefixedFileSystem(LocalFileSystem):
    """`shardmilltest:///a/b` is `/a/b`: enough of a scheme for names to be URLs."""

    @classmethod
    def scheme(cls) -> str:
        return "shardmilltest"

    def join(self, base: str, *paths: str) -> str:
        return "/".join([base.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        super().mkdirs(_local(path))

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for item in super()._list(_local(dir_or_prefix)):
            yield FileMetadata(_PREFIX + item.path, item.size_in_bytes, item.last_updated_in_seconds)

    def _path_open(self, path: str, *rest: Any, **more: Any) -> Any:
        return super()._path_open(_local(path), *rest, **more)

    def create(self, path: str, *rest: Any, **more: Any) -> Any:
        return super().create(_local(path), *rest, **more)

    def metadata(self, path: str) -> FileMetadata:
        found = super().metadata(_local(path))
        return FileMetadata(path, found.size_in_bytes, found.last_updated_in_seconds)

    def exists(self, path: str) -> bool:
        return super().exists(_local(path))

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        super().rename(list(map(_local, source_file_names)), list(map(_local, destination_file_names)))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            Path(_local(path)).unlink()


def _local(path: str) -> str:
    return path.removeprefix(_PREFIX)


def test_every_operation_on_a_scheme_that_only_beam_knows(tmp_path: Path) -> None:
    folder = f"{_PREFIX}{tmp_path}/set"
    names = ["a.txt", "b/c [1].txt"]
    for name in names:
        storage.write_text(f"{folder}/{name}", name)
    assert sorted(storage.list_files(folder)) == [(name, len(name)) for name in names]
    assert storage.list_folders(folder) == ["b"]
    assert storage.read_bytes(f"{folder}/a.txt") == b"a.txt"
    assert storage.size(f"{folder}/a.txt") == 5
    storage.rename([f"{folder}/a.txt"], [f"{folder}/d.txt"])
    assert not storage.exists(f"{folder}/a.txt")
    assert storage.read_bytes(f"{folder}/d.txt") == b"a.txt"
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(f"{folder}/a.txt")
    storage.delete_tree(folder)
    assert list(storage.list_files(folder)) == []


def test_unknown_scheme_is_named() -> None:
    with pytest.raises(UserError, match="nosuchscheme"):
        storage.exists("nosuchscheme://bucket/file")


def test_the_command_reads_and_writes_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for label in ("cat", "dog"):
        (tree / label).mkdir(parents=True)
        for index in range(5):
            pixels = np.full((4, 4, 3), index * 20, np.uint8)
            Image.fromarray(pixels).save(tree / label / f"{index}.png")
    common = ["--name", "pets", "--num_shards", "2"]
    assert main(["images", "--input", str(tree), "--output", str(tmp_path / "local"), *common]) == 0
    urls = ["--input", f"{_PREFIX}{tree}", "--output", f"{_PREFIX}{tmp_path}/remote"]
    assert main(["images", *urls, *common]) == 0
    for name in (
        "pets-train.tfrecord-00000-of-00002",
        "pets-train.tfrecord-00001-of-00002",
        "schema.pbtxt",
        "stats.json",
        "FeatureStats.pb",
    ):
        one, other = (tmp_path / kind / "pets" / "1.0.0" / name for kind in ("local", "remote"))
        assert one.read_bytes() == other.read_bytes()


def test_the_run_that_ends_first_leaves_the_other_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def variables() -> list[str | None]:
        return [os.environ.get(name) for name in VARIABLES]

    before, variables_before = process_options(), variables()
    one, other = PipelineOptions(["--s3_attempts=3"]), PipelineOptions(["--s3_attempts=5"])
    first, second = ExitStack(), ExitStack()
    first.enter_context(using_options(one))
    second.enter_context(using_options(other))
    assert variables() == ["standard", "5"]

    first.close()
    assert process_options() is other
    assert variables() == ["standard", "5"]

    second.close()
    assert process_options() is before
    assert variables() == variables_before


def test_behind_a_proxy_nobody_knocks_at_the_endpoint_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError, match=f"s3://b/a: no store can be reached at {endpoint}: Connection refused"):
        clients._check_reachable("s3://b/a", endpoint)
    monkeypatch.setenv("http_proxy", "http://proxy")
    clients._check_reachable("s3://b/a", endpoint)


def test_the_options_of_a_process_are_those_that_beams_file_systems_get() -> None:
    options = PipelineOptions(["--s3_region_name=here"])
    set_options(options)
    assert process_options() is options

    FileSystems.set_options(None)  # then they are Beam's defaults, and always the same
    assert process_options().view_as(S3Options).s3_region_name is None
    assert process_options() is process_options()
    with pytest.raises(OSError, match="holds no files"):
        FileSystems.exists("shardmill-options://a")


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_workers_have_those_of_the_command(tmp_path: Path, mode: str) -> None:
    def write_region(folder: str) -> None:
        Path(folder, "region").write_text(str(process_options().view_as(S3Options).s3_region_name))

    def build(pipeline: beam.Pipeline, _: str | None) -> None:
        _ = pipeline | beam.Create([str(tmp_path)]) | beam.Map(write_region)

    launch.run_pipeline(build, PipelineOptions(["--s3_region_name=there", f"--direct_running_mode={mode}"]), "test")

    assert (tmp_path / "region").read_text() == "there"
    set_options(None)
