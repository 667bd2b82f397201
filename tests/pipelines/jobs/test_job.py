"""What is checked before a job starts, where records are taken from, and how many steps its graph has."""

import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner

from shardmill.errors import UserError
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.jobs.file_graphs import Reuse, find_reuse
from shardmill.pipelines.jobs.job import check_input, check_job, check_version, record_job
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.shards.sources import FileIndex, index_folder, index_name
from tests.support.command import Run, write_files
from tests.support.small_data_set import make_version

ENCODING = {"verify": "header", "pillow": "1"}
MANIFEST = b"{}"


@pytest.fixture
def config(tmp_path: Path) -> ImagesConfig:
    given: dict[str, Any] = {"version": "1.0.1", "reuse": "LATEST", "seed": 5}
    return ImagesConfig(input=str(tmp_path / "in"), output=str(tmp_path), name="n", **given).resolve()


def publish(config: ImagesConfig, version: str = "1.0.0", text: str | None = None, **changes: Any) -> None:
    """Write a published version with only the files that the code under test reads."""
    parent = Path(config.output) / config.name
    (parent / version).mkdir(parents=True)
    (parent / version / "manifest.json").write_bytes(MANIFEST)
    (parent / version / "_SUCCESS").touch()
    (parent / "LATEST").write_text(f"{version}\n")
    folder = Path(index_folder(str(parent), version))
    folder.mkdir(parents=True)
    index = replace(FileIndex(config.root, 3, ENCODING), **changes)
    (folder / index_name(MANIFEST)).write_text(index.to_json() if text is None else text)


def found(config: ImagesConfig, encoding: dict[str, str] = ENCODING) -> Reuse:
    reuse = find_reuse(config, encoding)
    assert reuse is not None
    assert (reuse.previous is None) == (reuse.index_options.former == "") == (reuse.index_options.why != "")
    return reuse


@pytest.mark.parametrize("reuse", ["LATEST", "1.0.0"])
def test_a_version_of_the_same_encoding_is_taken_from(config: ImagesConfig, reuse: str) -> None:
    publish(config)

    former = found(replace(config, reuse=reuse)).previous

    assert former is not None
    assert (former.version, former.index.seed) == ("1.0.0", 3)
    assert former.directory == f"{config.output}/n/1.0.0"


def test_the_next_build_is_told_what_this_one_reads_and_how(config: ImagesConfig) -> None:
    remember = found(config).index_options

    assert (remember.root, remember.seed, remember.encoding, remember.codec) == (config.root, 5, ENCODING, "")
    assert found(replace(config, compression="gzip")).index_options.codec != ""
    assert find_reuse(replace(config, reuse="no"), ENCODING) is None
    # Where a job runs makes no difference
    for given, root in (("photos", str(Path.cwd() / "photos")), ("gs://bucket/photos/*.jpg", "gs://bucket/photos")):
        assert found(replace(config, input=given, reuse="record").resolve()).index_options.root == root


def test_why_nothing_is_taken(config: ImagesConfig) -> None:
    assert found(config).index_options.why == "there is no older version to take examples from"
    publish(config)
    for changed, encoding, why in (
        (replace(config, reuse="record"), ENCODING, "--reuse record takes nothing"),
        (replace(config, input="/elsewhere").resolve(), ENCODING, f"lie in {config.root}, not in /elsewhere"),
        (config, {"verify": "none", "pillow": "1"}, "1.0.0 was encoded with another verify"),
        (config, {"resize": "9x9", "pillow": "2"}, "another pillow, another resize, another verify"),
    ):
        assert why in found(changed, encoding).index_options.why

    directory = Path(config.output) / "n/1.0.0"
    (directory / "manifest.json").write_bytes(b'{"other": 1}')
    assert "1.0.0 remembers nothing of its files" in found(config).index_options.why
    (directory / "_SUCCESS").unlink()
    assert "LATEST names 1.0.0, which is not published" in found(config).index_options.why
    with pytest.raises(UserError, match=r"--reuse 1\.0\.0: .* is not published"):
        find_reuse(replace(config, reuse="1.0.0"), ENCODING)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"codec": "gzip"}, "the shards of 1.0.0 are gzip"),
        ({"text": "{}"}, "cannot be read: "),
        ({"text": FileIndex("/", 0, {}).to_json().replace('"format": 1', '"format": 9')}, "newer format"),
    ],
)
def test_an_index_from_which_nothing_can_be_taken(config: ImagesConfig, changes: dict[str, Any], why: str) -> None:
    publish(config, **changes)

    assert why in found(config).index_options.why


FUSED = ["--environment_type", "LOOPBACK", "--experiments", "pre_optimize=all"]


def stages_of(command: str, folder: Path, **values: Any) -> tuple[int, int]:
    """Return the number of steps in a command's job, and the most steps that read one collection."""
    kind = KINDS[command]
    job = kind.make_job(kind.make_config({"input": str(folder), "output": str(folder), "name": "n", **values}))
    options = PipelineOptions(FUSED)
    pipeline = beam.Pipeline(runner="DirectRunner", options=options)
    job.build(pipeline, None)
    graph = PortableRunner.get_proto_pipeline(pipeline, options)
    steps = [graph.components.transforms[step] for step in graph.root_transform_ids]
    readers = Counter(collection for step in steps for collection in set(step.inputs.values()))
    return len(steps), max(readers.values())


SPLITS = {"splits": "train=0.8,test=0.2"}


@pytest.mark.parametrize(
    ("command", "values", "most"),
    [
        *(("images", {}, 20), ("arrays", {}, 21), ("audio", {}, 20), ("csv", {}, 39), ("jsonl", {}, 39)),
        *(("text", {}, 36), ("reshard", {}, 36)),
        # With exact strata
        ("images", {"stratify_by": "label", **SPLITS}, 38),
        ("csv", {"stratify_by": "word", **SPLITS}, 57),
    ],
)
def test_a_graph_has_few_steps_and_no_collection_many_readers(
    command: str, values: dict[str, str], most: int, tmp_path: Path
) -> None:
    steps, readers = stages_of(command, tmp_path, **values)
    assert steps <= most
    assert readers <= 3


@pytest.mark.parametrize(
    ("baseline", "sentence"),
    [("1.0.0", ""), ("LATEST", ""), ("1.0.7", "1.0.7 is not a data set"), ("gold", "no version or tag 'gold'")],
)
def test_the_version_to_compare_with_is_there(tmp_path: Path, baseline: str, sentence: str) -> None:
    make_version(tmp_path / "n", "1.0.0", latest=False, examples=2)
    plain = KINDS["csv"].make_config({"input": str(tmp_path), "output": str(tmp_path), "name": "n"})

    check_version(plain)
    with pytest.raises(UserError, match=sentence) if sentence else nullcontext():
        check_version(replace(plain, checks=CheckOptions(baseline=baseline)))


@pytest.mark.parametrize(
    ("command", "name", "sentence"),
    [
        ("images", "photos.7z", "is an archive, and images in it are not read; unpack it, and give --input"),
        ("arrays", "scans.RAR", "is an archive, and arrays in it are not read; unpack it, and give --input the folder"),
        ("images", "a.tar.gz", "the folder; tar files of samples, 1.jpg next to 1.cls, are for `shardmill webdataset`"),
        ("csv", "rows.csv.gz", ""),
        ("webdataset", "a.tar.gz", ""),
        ("webdataset", "a.zip", "is an archive, and tar files in it are not read"),
    ],
)
def test_archives_are_to_be_unpacked(tmp_path: Path, command: str, name: str, sentence: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.zip").mkdir()
    for given, said in ((name, sentence), ("*" + name[1:], sentence), ("folder.zip", "")):
        config = KINDS[command].make_config({"input": str(tmp_path / given), "output": "/o", "name": "n"})
        with pytest.raises(UserError, match=said) if said else nullcontext():
            check_input(config)


@pytest.mark.parametrize("command", ["csv", "images", "reshard"])
def test_what_may_be_meant_by_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(write_files(tmp_path, {"a": b"x", "b": b"x"}))
    no_list = "; it is one path, not a list: give a folder that holds everything, or a glob such as 'data/*/*'"
    split = {} if command == "reshard" else {"train=a": "; a is there, and is given without train="}
    for given, hint in {**split, "a,b": no_list, "a,c": "", "missing.zip": "", "missing.tar": ""}.items():
        config = KINDS[command].make_config({"input": given, "output": "o", "name": "n"})
        with pytest.raises(UserError) as caught:
            check_input(config)
        assert str(caught.value) == f"--input {given}: no such file or folder{hint}"


def test_the_web_is_not_read() -> None:
    config = KINDS["images"].make_config({"input": "https://host/photos", "output": "/o", "name": "n"})
    with pytest.raises(UserError, match="https://host/photos: https:// is not read; download it first: img2dataset"):
        check_input(config)


def test_a_job_is_made_and_checked_once(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"x,y\n1,2\n3,4\n"})
    (tmp_path / "n.yaml").write_text(f"name: rows\noutput: {tmp_path}/out\ncsv: {{input: {source}}}\n")
    flags = ("--input", source, "--output", tmp_path / "out", "--name")
    once = {check_job.__code__: "checked", record_job.__code__: "made"}
    for words in (("csv", *flags, "n"), ("csv", *flags, "m", "--dry_run"), ("rebuild", tmp_path / "n.yaml")):
        calls: Counter[str] = Counter()

        def count(frame: FrameType, event: str, _: object, calls: Counter[str] = calls) -> None:
            if event == "call" and frame.f_code in once:
                calls[once[frame.f_code]] += 1

        sys.setprofile(count)
        try:
            assert run(*words).status == 0
        finally:
            sys.setprofile(None)
        assert calls == {"checked": 1, "made": 1}, words
