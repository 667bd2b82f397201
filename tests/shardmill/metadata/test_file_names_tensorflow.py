"""Tests of src/shardmill/metadata/file_names.py, against TensorFlow.

* Templates of shards' names
* An error about a version that is not published says which are, by whatever reads it
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shardmill
from shardmill.data.codecs import CODECS
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import LocalFiles
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run
from tests.support.later import Later
from tests.support.small_data_set import write_data_set

tfds_naming = Later("tensorflow_datasets.core.naming")

GOOD = [
    file_names.DEFAULT_TEMPLATE,
    "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
    "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}",
    "{DATASET}_{SPLIT}_{SHARD_INDEX}_{NUM_SHARDS}.{FILEFORMAT}",
    "data.{SPLIT}.{SHARD_X_OF_Y}.records",
    "{SHARD_X_OF_Y}={SPLIT}",
]


@pytest.mark.slow
@pytest.mark.parametrize("template", GOOD)
def test_names_are_those_of_tfds(template: str) -> None:
    theirs = tfds_naming.ShardedFileTemplate("/x", template, "flowers", "train_a", "tfrecord")

    assert tfds_naming.DEFAULT_FILENAME_TEMPLATE == file_names.DEFAULT_TEMPLATE
    assert file_names.template_problem(template) is None
    for shard, count in ((0, 1), (7, 12), (99_998, 99_999)):
        name = str(ShardName("flowers", "train_a", shard, count, template=template))
        assert name == theirs.relative_filepath(shard_index=shard, num_shards=count)
        assert file_names.is_shard(name, template, "flowers", "train_a")
        assert file_names.is_dataset_file(name, "flowers", [template])
        assert file_names.is_dataset_file(name, "flowers") is (template == file_names.DEFAULT_TEMPLATE)
        assert not file_names.is_shard(name, template, "flowers", "test")
        assert not file_names.is_shard(f"{name}.bak", template)
        assert file_names.is_shard(f"{name}.gz", template)
    assert str(ShardName("f", "s", 0, 1, CODECS["tfrecord", "gzip"], template)).endswith(".gz")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{SPLIT}/{SHARD_X_OF_Y}", "names a folder"),
        ("{SPLIT}", "lacks {SHARD_X_OF_Y} or {SHARD_INDEX}"),
        ("{SPLIT}-{NUM_SHARDS}", "lacks {SHARD_X_OF_Y} or {SHARD_INDEX}"),
        ("{DATASET}-{SHARD_X_OF_Y}", "lacks {SPLIT}"),
        ("", "lacks {SPLIT}"),
        ("{SPLIT}-{SHARD}", "has {SHARD}; TFDS knows {DATASET}, {SPLIT}, {FILEFORMAT}, "),
        ("{split}-{SHARD_X_OF_Y}", "has {split}; TFDS knows"),
        ("{SPLIT:>9}-{SHARD_X_OF_Y}", "has {SPLIT}; TFDS knows"),
        ("{SPLIT!r}-{SHARD_X_OF_Y}", "has {SPLIT}; TFDS knows"),
        ("{}-{SPLIT}-{SHARD_X_OF_Y}", "has {}; TFDS knows"),
        ("{SPLIT}-{SPLIT}-{SHARD_X_OF_Y}", "has {SPLIT} twice"),
        ("{SPLIT}-{SHARD_INDEX}-{SHARD_X_OF_Y}", "the number of a shard twice"),
        ("{SPLIT-{SHARD_X_OF_Y}", "is no template"),
        ("{SPLIT}-{SHARD_X_OF_Y}}", "is no template"),
        ("{SPLIT} {SHARD_X_OF_Y}", "other characters"),
        ("{SPLIT}-{{x}}-{SHARD_X_OF_Y}", "other characters"),
        ("{SPLIT}*{SHARD_X_OF_Y}", "other characters"),
        ("_{SPLIT}-{SHARD_X_OF_Y}", "begins or ends as files of another kind"),
        (".{SPLIT}-{SHARD_X_OF_Y}", "begins or ends"),
        ("beam-temp-{SPLIT}-{SHARD_X_OF_Y}", "begins or ends"),
        ("{SPLIT}-{SHARD_X_OF_Y}.tmp", "begins or ends"),
        ("{SPLIT}-{SHARD_X_OF_Y}.json", "begins or ends"),
    ],
)
def test_what_is_no_template(template: str, words: str) -> None:
    assert words in (file_names.template_problem(template) or "")


FUNCTIONS: dict[str, Callable[[Path], object]] = {
    "examples": lambda path: list(shardmill.examples(path)),
    "load": shardmill.load,
    "info": shardmill.info,
    "feature_spec": shardmill.feature_spec,
}
PUBLISHED = ("1.0.0", "1.9.0", "1.10.0")
NOTHING = "is not a data set: there is no _SUCCESS and no manifest.json in it"
NO_FOLDER = "is not a data set: there is no such folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three versions, one whose job did not finish, one that was interrupted while it published, and what is no
    version."""
    above = tmp_path / "n"
    for version in (*PUBLISHED, "3.0.0", "4.0.0", "1.0"):
        write_data_set(above / version, (Feature("x", "int64"),), [{"x": [1]}], shards=1)
    for version in ("3.0.0", "4.0.0"):
        (above / version / file_names.SUCCESS).unlink()
    (above / "4.0.0" / file_names.PUBLISHING).write_text("{}")
    (above / "5.0.0").touch()
    return above


def said(reader: str, run: Run, path: Path, status: int) -> str:
    """The sentence with which `reader` refuses `path`."""
    if reader in FUNCTIONS:
        with pytest.raises((UserError, CorruptDataError)) as raised:
            FUNCTIONS[reader](path)
        assert isinstance(raised.value, UserError) is (status == 2)
        return str(raised.value)
    result = run(reader, path)
    assert (result.status, result.out) == (status, "")
    assert result.err.count("\n") == 1
    return result.err.removeprefix("shardmill: error: ").removesuffix("\n")


@pytest.mark.parametrize("reader", [*FUNCTIONS, "inspect", "verify"])
def test_every_reader_says_what_is_there(run: Run, folder: Path, reader: str) -> None:
    latest, journal = folder / file_names.LATEST, folder / "4.0.0" / file_names.PUBLISHING
    there = f"; published in {folder}: 1.10.0, 1.9.0, 1.0.0; open {folder}/1.10.0"

    def check(version: str, begin: str, end: str = "", status: int = 2) -> None:
        """Let LATEST name `version`, and check how the sentence begins and ends."""
        latest.write_text(f"{version}\n")
        sentence = said(reader, run, folder, status)
        assert sentence.startswith(f"{latest} {begin}")
        assert sentence.endswith(end + there)

    sentence = said(reader, run, folder, 2)
    assert sentence.startswith(f"{folder} is not a data set yet: the job of its version 4.0.0 was interrupted while it")
    assert sentence.endswith(f"`shardmill verify --repair {folder}`, which completes it{there}")
    journal.rename(folder / "journal")
    assert said(reader, run, folder, 2) == f"{folder} {NOTHING}{there}"
    (folder / "journal").rename(journal)
    assert said(reader, run, folder / "2.0.0", 2) == f"{folder}/2.0.0 {NO_FOLDER}{there}"
    check("2.0.0", "names 2.0.0, but ", f"{folder}/2.0.0 {NO_FOLDER}")
    check("3.0.0", f"names 3.0.0, but {folder}/3.0.0 has no _SUCCESS: its job did not finish")
    check("4.0.0", f"names 4.0.0, but {folder}/4.0.0 has no _SUCCESS: its job was interrupted", "which completes it")
    check("newest", "holds 'newest'; expected a version, such as 1.0.0", status=1)

    for version in PUBLISHED:
        shutil.rmtree(folder / version)
    latest.write_text("2.0.0\n")
    none = f"{latest} names 2.0.0, but {folder}/2.0.0 {NO_FOLDER}; no version is published in {folder}"
    assert said(reader, run, folder, 2) == none
    latest.unlink()
    journal.unlink()
    assert said(reader, run, folder, 2) == f"{folder} {NOTHING}"


def test_of_many_versions_the_newest_are_named(folder: Path) -> None:
    for number in range(20):
        shutil.copytree(folder / "1.0.0", folder / f"7.{number}.0")

    newest = r"published in .*/n: 7\.19\.0, 7\.18\.0, 7\.17\.0, 7\.16\.0, 7\.15\.0, …; open .*/7\.19\.0$"
    with pytest.raises(UserError, match=newest):
        open_dataset(folder)


def test_a_relative_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    there = r"^2\.0\.0 is not a data set.*; published in \.: 1\.10\.0, 1\.9\.0, 1\.0\.0; open \./1\.10\.0$"
    with pytest.raises(UserError, match=there):
        open_dataset("2.0.0")


class _WithoutFolders:
    """All that a reader must be given."""

    open = staticmethod(LocalFiles().open)
    exists = staticmethod(LocalFiles().exists)


class _Closed(LocalFiles):
    def folders(self, path: str) -> list[str]:
        raise PermissionError(path)


@pytest.mark.parametrize("files", [_WithoutFolders(), _Closed()])
def test_where_folders_cannot_be_listed_the_error_is_the_same_but_for_them(folder: Path, files: LocalFiles) -> None:
    (folder / file_names.LATEST).write_text("2.0.0")
    with pytest.raises(UserError, match=r"/LATEST names 2\.0\.0, but .*/2\.0\.0 is not a data set: there is no .*"):
        open_dataset(folder, files)

    (folder / file_names.LATEST).write_text("1.9.0")
    assert open_dataset(folder, files).directory == f"{folder}/1.9.0"


@pytest.mark.slow
def test_through_tensorflow_s_file_system(folder: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    for path in filter(Path.is_file, folder.rglob("*")):
        tf.io.gfile.makedirs(f"ram://versions/n/{path.parent.relative_to(folder)}".removesuffix("/."))
        tf.io.gfile.copy(str(path), f"ram://versions/n/{path.relative_to(folder)}")

    there = "published in ram://versions/n: 1.10.0, 1.9.0, 1.0.0; open ram://versions/n/1.10.0"
    for read in FUNCTIONS.values():
        with pytest.raises(UserError, match=there):
            read("ram://versions/n")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"there is no such folder$"):
        shardmill.info("ram://versions/elsewhere")
