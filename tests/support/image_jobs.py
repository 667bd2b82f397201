"""What the tests of image jobs share."""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from shardmill.metadata.manifest import SplitEntry
from tests.support.command import Contents, Result, Run, check_mistake, image, image_tree, read_back, write_files
from tests.support.jobs import Files, Jobs

TREE = image_tree(("ant", "bee", "cow"), 30)
SPLITS = ("--splits", "train=0.8,validation=0.1,test=0.1")


@dataclass(frozen=True)
class ImageJobs:
    """`shardmill images` in the working folder, by its files and its flags."""

    jobs: Jobs

    def start(self, files: Files, flags: str = "") -> Result:
        """Write files to `in` and run the command."""
        return self.jobs.run(f"images {flags}", files=files)

    def make(self, files: Files, flags: str = "") -> Contents:
        """Start a job, which must succeed, and read the data set back."""
        return self.jobs.build(f"images {flags}", files=files).contents

    def refuse(self, files: Files, flags: str, *words: str) -> None:
        """Start a job, which must end with a sentence that holds `words` and leave nothing behind."""
        check_mistake(self.start(files, flags), *words)
        assert not (self.jobs.folder / "out").exists()


def convert(run: Run, source: Path | str, output: Path, *flags: object) -> Contents:
    """Run the command, which must succeed, and read the data set back."""
    result = run("images", "--input", source, "--output", output, "--name", "n", *flags)
    assert result.status == 0, result.err
    return read_back(output / "n")


def counts(split: SplitEntry) -> list[int]:
    """Examples of each shard."""
    return [shard.examples for shard in split.shards]


def picture(contents: Contents, name: str) -> Image.Image:
    """The image of an example, decoded."""
    return Image.open(io.BytesIO(contents.example(name)["image"][0]))


def damaged_in_the_middle() -> bytes:
    """A GIF with proper blocks, and pixels that do not decode."""
    content = bytearray(image(1, "GIF", (60, 60)))
    content[1100:1140] = bytes(40)
    return bytes(content)


GOOD = image_tree(("ant", "bee"), 6)
SHARDS = ("--splits", "train=0.7,test=0.3", "--num_shards", "2")


def write_manifest(
    folder: Path, rows: Iterable[str], name: str = "meta.csv", header: str = "file_name,label,age"
) -> Path:
    """A manifest beside the good files."""
    write_files(folder, GOOD)
    (folder / name).write_text("".join(f"{row}\n" for row in (header, *rows) if row))
    return folder / name
