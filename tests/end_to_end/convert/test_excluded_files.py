"""--exclude, also called --ignore: files and folders of the input that are left out, in every command."""

from typing import Any

import pytest

from tests.support.command import image, image_tree
from tests.support.jobs import Jobs


@pytest.mark.parametrize(
    ("line", "suffix", "make"),
    [
        ("images", "png", lambda number: image(number, "PNG")),
        ("text --record file", "txt", lambda number: b"line %d\n" % number),
        ("csv", "csv", lambda number: b"x\n%d\n" % number),
    ],
)
def test_all_commands_leave_out_and_count(jobs: Jobs, line: str, suffix: str, make: Any) -> None:
    names = ("a/0", "a/1", "thumbs/2", "thumbs/3", "b/bad_4", "b/5")
    files = {f"{name}.{suffix}": make(number) for number, name in enumerate(names)}
    made = jobs.build(f"{line} --exclude thumbs --ignore 'bad_*' --exclude '*.tmp'", files=files)
    assert [split.examples for split in made.manifest.splits] == [3]
    for notice in (
        f"passed over 2 files that --exclude thumbs leaves out, such as 'thumbs/2.{suffix}'",
        f"passed over 1 file that --exclude bad_* leaves out, such as 'b/bad_4.{suffix}'",
        "passed over 1 --exclude pattern without a file, such as '*.tmp'",
    ):
        assert notice in made.notices
        assert notice in made.said


def test_an_excluded_folder_is_no_class(jobs: Jobs) -> None:
    tree = image_tree(("ant", "bee", "train_more"), 2)
    jobs.refuse("images", "the roles of its folders are not clear…--exclude train_more", files=tree)
    made = jobs.build("images --exclude train_more")
    assert sorted(made.contents.records) == sorted(image_tree(("ant", "bee"), 2))
    assert (made.directory / "label.labels.txt").read_text() == "ant\nbee\n"
    assert made.manifest.configuration["exclude"] == ["train_more"]


def test_a_table_of_images_may_be_excluded(jobs: Jobs) -> None:
    files = {**image_tree(("ant", "bee"), 2), "metadata.csv": "file_name,caption\nant/000.jpg,one\n"}
    made = jobs.build("images --exclude bee --exclude metadata.csv", files=files)
    assert [sorted(example)[:2] for example in made.examples()] == [["filename", "height"]] * 2
