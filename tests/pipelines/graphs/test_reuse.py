"""Where records are taken from, or why from nowhere."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.jobs.file_graphs import Reuse, find_reuse
from shardmill.transforms.shards.sources import FileIndex, index_folder, index_name

ENCODING = {"verify": "header", "pillow": "1"}
MANIFEST = b"{}"


@pytest.fixture
def config(tmp_path: Path) -> ImagesConfig:
    return ImagesConfig(
        input=str(tmp_path / "in"), output=str(tmp_path), name="n", version="1.0.1", reuse="LATEST", seed=5
    )


def publish(config: ImagesConfig, version: str = "1.0.0", text: str | None = None, **changes: Any) -> None:
    """As much of a version as is looked at."""
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


def test_without_the_flag_nothing_is_taken_or_remembered(config: ImagesConfig) -> None:
    publish(config)

    assert find_reuse(replace(config, reuse="no"), ENCODING) is None


def test_the_next_build_is_told_what_this_one_reads_and_how(config: ImagesConfig) -> None:
    remember = found(config).index_options

    assert (remember.root, remember.seed, remember.encoding, remember.codec) == (config.root, 5, ENCODING, "")
    assert found(replace(config, compression="gzip")).index_options.codec != ""


def test_why_nothing_is_taken(config: ImagesConfig) -> None:
    assert found(config).index_options.why == "no older version is published"
    publish(config)
    for changed, encoding, why in (
        (replace(config, reuse="record"), ENCODING, "--reuse record takes nothing"),
        (replace(config, input="/elsewhere"), ENCODING, f"lie in {config.root}, not in /elsewhere"),
        (config, {"verify": "none", "pillow": "1"}, "1.0.0 was encoded with another verify"),
        (config, {"resize": "9x9", "pillow": "2"}, "another pillow, another resize, another verify"),
    ):
        assert why in found(changed, encoding).index_options.why


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


def test_a_version_that_remembers_nothing(config: ImagesConfig) -> None:
    publish(config)
    (Path(config.output) / "n/1.0.0/manifest.json").write_bytes(b'{"other": 1}')

    assert "1.0.0 remembers nothing of its files" in found(config).index_options.why


def test_a_version_that_is_not_published(config: ImagesConfig) -> None:
    publish(config)
    (Path(config.output) / "n/1.0.0/_SUCCESS").unlink()

    assert "LATEST names 1.0.0, which is not published" in found(config).index_options.why
    with pytest.raises(UserError, match=r"--reuse 1\.0\.0: .* is not published"):
        find_reuse(replace(config, reuse="1.0.0"), ENCODING)
