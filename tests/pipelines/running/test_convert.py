"""Python runs a job: the bytes of the command line, nothing printed, no setting of the process changed."""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import shardmill
from shardmill.errors import JobError, UserError
from shardmill.pipelines.jobs import launch, runner
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.build_records import read_record
from tests.support.command import Run, image_tree, tree_bytes, write_files


def rows(folder: Path) -> Path:
    return write_files(
        folder, {"a.csv": b"id,city\n" + b"".join(b"%d,%s\n" % (n, (b"Oslo", b"Rome")[n % 2]) for n in range(40))}
    )


def settings() -> list[object]:
    return [
        dict(os.environ),
        os.getcwd(),
        logging.getLogger("apache_beam").level,
        signal.getsignal(signal.SIGTERM),
        signal.getsignal(signal.SIGINT),
    ]


def test_the_bytes_are_those_of_the_command_line(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = rows(tmp_path / "in")
    flags = ("--label", "city", "--splits", "train=0.75,test=0.25", "--num_shards", "2")
    assert run("csv", "--input", source, "--output", tmp_path / "there", "--name", "d", *flags).status == 0
    config = shardmill.configure(
        "csv",
        input=str(source),
        output=str(tmp_path / "here"),
        name="d",
        label="city",
        splits={"train": 0.75, "test": 0.25},
        num_shards=2,
    )
    capsys.readouterr()
    before = settings()

    published = shardmill.convert(config)

    assert settings() == before
    assert capsys.readouterr() == ("", "")
    assert tree_bytes(tmp_path / "here") == tree_bytes(tmp_path / "there")
    assert published.directory == str(tmp_path / "here/d/1.0.0")
    record = read_record(str(tmp_path / "here/d/builds/1.0.0.json"))
    assert record is not None
    assert (record.status, record.splits) == ("published", published.splits)
    assert (list(published.splits), sum(published.splits.values()), published.rejected) == (["train", "test"], 40, 0)


def test_rejects_and_notices_are_told(tmp_path: Path) -> None:
    source = write_files(
        tmp_path / "in", {**image_tree(("cat", "dog"), 4), "cat/broken.jpg": b"no", "cat/notes.txt": b""}
    )
    config = shardmill.configure("images", input=str(source), output=str(tmp_path), name="d", max_reject_fraction="0.5")

    published = shardmill.convert(config)

    assert (published.splits, published.rejected) == ({"train": 8}, 1)
    assert any("notes.txt" in notice for notice in published.notices)


@pytest.mark.parametrize(
    ("configure", "sentence"),
    [
        (lambda: shardmill.configure("cvs"), "^unknown command 'cvs'"),
        (
            lambda: shardmill.configure("csv", output="x", name="d", inptu="y"),
            "^unknown option 'inptu'; did you mean input\\?$",
        ),
        (lambda: shardmill.configure("csv", input="x"), "^--output is required$"),
        (
            lambda: shardmill.configure("csv", input="x", output="y", name="d", balance="byte"),
            "^--balance byte: expected one of",
        ),
        (
            lambda: shardmill.configure("csv", input="x", output="y", name="d", splits={"train": 0.5}),
            "^--splits: the fractions add up to 0.5; expected 1$",
        ),
        (
            lambda: shardmill.configure("parquet", input="x", output="y", name="d", delimiter=";"),
            "^unknown option 'delimiter'",
        ),
        (
            lambda: shardmill.configure("images", input="x", output="y", name="d", image_format="gif"),
            "^--image_format gif: expected",
        ),
    ],
)
def test_values_that_did_not_come_from_a_command_line_are_checked_as_well(
    configure: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        configure()


def test_a_cluster_s_job_keeps_its_version_when_its_launcher_is_interrupted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster whose workers do not end with the launcher."""
    source = rows(tmp_path / "in")
    config = shardmill.configure("csv", input=str(source), output=str(tmp_path / "out"), name="d")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "has_local_workers", lambda options: False)
        patch.setattr(launch, "run_pipeline", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"goes on, .*; 1\.0\.0 stays its own until it has written"):
            shardmill.convert(config)

    owner = lease.read_holder(str(tmp_path / "out/d/1.0.0"))
    assert owner is not None
    assert (owner.detached, owner.seconds) == (True, lease.DETACHED_LEASE_SECONDS)


def test_failures_are_raised(tmp_path: Path) -> None:
    config = shardmill.configure("csv", input=str(tmp_path / "gone"), output=str(tmp_path / "out"), name="d")
    with pytest.raises(UserError, match="no such file or folder"):
        shardmill.convert(config)

    source = write_files(tmp_path / "in", {"cat/1.jpg": b"no"})
    config = shardmill.configure("images", input=str(source), output=str(tmp_path / "out"), name="d")
    with pytest.raises(JobError, match="nothing was published"):
        shardmill.convert(config)
    assert not (tmp_path / "out/d/1.0.0").exists()


def test_a_configuration_says_of_what_kind_it_is(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.txt": b"one\ntwo\n", "b.txt": b"three\n"})
    lines = shardmill.configure("text", input=str(source), output=str(tmp_path / "out"), name="lines")
    files = shardmill.configure("text", input=str(source), output=str(tmp_path / "out"), name="files", record="file")

    assert shardmill.convert(lines).splits == {"train": 3}
    assert shardmill.convert(files).splits == {"train": 2}
