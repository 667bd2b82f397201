"""Twenty wishes of a new user: each has a page near the start, and the first command there works as it stands."""

import re
from pathlib import Path

import pytest

from docs.build_site import site_page
from tests.support.command import REPOSITORY, Run
from tests.support.pages import README, commands, is_remote, run_blocks, section_blocks

DOCS = REPOSITORY / "docs"
# The page of each wish; or a section of one, whose first block then counts
WISHES = {
    "a first data set": "first-images.md",
    "a folder of Kaggle with a CSV file": "kaggle.md",
    "detection": "detection.md",
    "masks": "segmentation.md",
    "a CSV file with missing values": "missing-values.md",
    "blocks for a language model": "language-models.md",
    "resuming training in PyTorch": "resume-training.md",
    "splits that do not leak": "splits.md",
    "a failed night": "failed-night.md",
    "old versions deleted": "retention.md",
    "Flink": "flink.md",
    "S3": "object-stores.md",
    "from Python": "python.md",
    "from TFDS": "coming-from.md#tfds-builders",
    "from TFRecorder": "coming-from.md#tfrecorder",
    "from img2dataset": "coming-from.md#img2dataset-and-webdataset",
    "TFRecords that exist": "tfrecords.md",
    "a check for corruption": "verify.md",
    "class names in order": "class-names.md",
    "serving with TensorFlow Transform": "serving.md",
}
NEEDS_CLOUD = ("Flink", "S3")
_LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)\s]*)?\)")
_NAVIGATION = re.compile(r"^ +- (?:.+: )?([\w-]+\.md)$", re.MULTILINE)


def linked(page: Path, text: str) -> set[Path]:
    """Return the pages that a page links."""
    return {(page.parent / target).resolve() for target in _LINK.findall(text)}


def within_two_clicks(first: set[Path]) -> set[Path]:
    """Return the pages that are one click away, and those that they link."""
    return first.union(*(linked(page, page.read_text()) for page in first))


def test_there_are_twenty_wishes() -> None:
    assert len(WISHES) == 20


@pytest.mark.parametrize("wish", WISHES)
def test_a_page_is_within_two_clicks(wish: str) -> None:
    page = DOCS / WISHES[wish].partition("#")[0]
    start = linked(DOCS / "index.md", site_page(README))

    assert page in within_two_clicks(linked(README, README.read_text()))
    assert page in within_two_clicks({found for found in start if found.exists()})
    assert page.name in _NAVIGATION.findall((REPOSITORY / "mkdocs.yml").read_text())


@pytest.mark.parametrize("wish", WISHES)
def test_the_first_command_works_as_it_stands(wish: str, folder: Path, run: Run) -> None:
    """Commands of a whole page are run by test_readme.py."""
    path, _, anchor = WISHES[wish].partition("#")
    first, *others = section_blocks(DOCS / path, anchor)

    if first.language == "sh":
        needs_cloud = [is_remote(words) for words, _ in commands(first) if words[0] == "shardmill"]
        assert needs_cloud
        assert any(needs_cloud) == (wish in NEEDS_CLOUD)
    else:
        assert first.language == "python"
        assert "shardmill." in first.text
        assert "import torch" not in first.text  # would only be compiled
    if anchor:
        run_blocks([first, *(block for block in others if block.file_name is not None)], folder, run)
