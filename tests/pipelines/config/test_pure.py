"""Constructors of configurations do no I/O: `resolve` asks stores, and `make_config` calls it once."""

import builtins
import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.annotations.options import AnnotationFileOptions
from shardmill.addons.masks.options import MaskOptions
from shardmill.errors import UserError
from shardmill.pipelines.config import imagefolder
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.kind import RecordsKind
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.stores import clients, storage
from tests.support.command import write_files

PLACES = ("s3://bucket/in", "/nowhere/in", "/nowhere/in.zip")
IMAGES: list[dict[str, Any]] = [
    {"manifest": (("", "s3://bucket/a.csv"),)},
    {"add_ons": (AnnotationFileOptions(coco=(("", "s3://bucket/a.json"),)),)},
    {"input": "in", "add_ons": (MaskOptions(masks="s3://bucket/masks.zip", mask_pattern="{stem}_mask"),)},
]


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, kind in KINDS.items():
        fields = {item.name for item in dataclasses.fields(kind.config)}
        required = {"url": "sqlite://", "query": "SELECT 1"}
        source = {field: value for field, value in required.items() if field in fields}
        yield from ((name, source or {"input": place}) for place in PLACES)
    yield from (("images", values) for values in IMAGES)


@pytest.mark.parametrize(("command", "values"), list(cases()))
def test_a_constructor_does_no_io(command: str, values: dict[str, Any]) -> None:
    kind = KINDS[command]
    fixed: dict[str, Any] = {"spec": kind.spec} if isinstance(kind, RecordsKind) else {}

    def make() -> JobConfig:
        return kind.config(**values, **fixed, output="s3://bucket/out", name="n")

    made = make()  # imports all that it needs
    with without_io():
        assert make() == made


def test_only_options_that_say_so_read_files() -> None:
    """Constructors parse the others; --input is in the test above."""
    options = {(option.owner, option.field): option for kind in KINDS.values() for option in kind.options}
    for option in (option for option in options.values() if not option.flag.reads_file and option.field != "input"):
        for manager in (nullcontext(), without_io()):  # the first call imports all that it needs
            with manager, suppress(UserError):
                option.parse("/nowhere/in.json")


@contextmanager
def without_io() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("stat", "lstat", "listdir", "scandir", "open"):
            patch.setattr(os, name, refuse)
        patch.setattr(builtins, "open", refuse)
        patch.setattr(clients, "object_store", refuse)
        patch.setattr(storage, "object_store", refuse)
        yield


def refuse(*arguments: object, **_: object) -> Any:
    raise AssertionError(f"I/O: {arguments}")


def test_a_folder_is_searched_for_metadata_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_files(tmp_path / "in", {"metadata.csv": b"file_name,label\na.png,cat\n"})
    find, searched = imagefolder.find_metadata_files, list[str]()

    def search(path: str) -> Any:
        searched.append(path)
        return find(path)

    monkeypatch.setattr(imagefolder, "find_metadata_files", search)
    config: Any = KINDS["images"].make_config({"input": str(folder), "output": str(tmp_path), "name": "n"})

    assert searched == [str(folder)]
    assert [path for _, path in config.manifest] == [f"{folder}/metadata.csv"]
    assert (config.input, config.imagefolder) == (None, str(folder))
