"""Jobs as a user types them in a folder of their own: what they say, and the data set that comes out."""

import json
import shlex
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import open_dataset
from tests.support.command import Contents, Result, Run, read_back, rejects_of, tree_bytes
from tests.support.table_results import Table, read_table

Files = Mapping[str, Any]  # bytes or str, of which mypy makes Sequence[object] in a dict of both
_INPUTS = ("--input", "--manifest", "--coco", "--voc", "--yolo", "--annotations", "--boxes_csv", "--url", "bigquery")


class Built:
    """A version that a job published, and what the job printed."""

    def __init__(self, directory: Path, said: str = "") -> None:
        self.directory, self.said = directory, said

    @cached_property
    def manifest(self) -> Manifest:
        return open_dataset(str(self.directory)).manifest

    @cached_property
    def table(self) -> Table:
        """Every example of a table, decoded."""
        return read_table(self.directory)

    @cached_property
    def contents(self) -> Contents:
        """Every example of a file, by the file's name."""
        return read_back(self.directory)

    @property
    def splits(self) -> dict[str, int]:
        """The number of examples of each split."""
        return {split.name: split.examples for split in self.manifest.splits}

    @property
    def notices(self) -> list[str]:
        return list(self.manifest.notices)

    @property
    def rejects(self) -> list[dict[str, Any]]:
        """The lines in rejects/."""
        return rejects_of(self.directory)

    @property
    def reasons(self) -> dict[str, str]:
        """The reason of each reject, by its source: a file, or `file:line`."""
        places = {f"{one['source']}:{one['line']}" if one["line"] else one["source"]: one for one in self.rejects}
        assert len(places) == len(self.rejects)
        return {place: reject["reason"] for place, reject in places.items()}

    @property
    def file_reasons(self) -> dict[str, str]:
        """The reason of each reject by its source alone, which must be of no other reject."""
        reasons = {reject["source"]: reject["reason"] for reject in self.rejects}
        assert len(reasons) == len(self.rejects)
        return reasons

    @property
    def stats(self) -> dict[str, Any]:
        """The statistics of the features of split `train`."""
        found: dict[str, Any] = self.json("stats.json")["splits"]["train"]["features"]
        return found

    def json(self, name: str) -> Any:
        """A JSON file of the version."""
        return json.loads((self.directory / name).read_text())

    def examples(self, split: str = "train", **options: Any) -> list[dict[str, Any]]:
        return list(shardmill.examples(self.directory, split, **options))


class Jobs:
    """Commands in `folder`, the working directory: they read `in` and write data set `n` to `out`, if not told else."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder, self._run = folder, run

    def write(self, files: Files) -> None:
        """Write files below `in`; a name that ends in / is a folder, and `name->target` a link."""
        for name, content in files.items():
            link, _, target = name.partition("->")
            path = self.folder / "in" / link
            path.parent.mkdir(parents=True, exist_ok=True)
            if target:
                path.symlink_to(target)
            elif name.endswith("/"):
                path.mkdir()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)

    def run(self, line: str, *more: object, files: Files | None = None) -> Result:
        """Run a command line, with what it lacks of --input, --output and --name."""
        self.write(files or {})
        words = [*shlex.split(line), *map(str, more)]
        words += [] if any(flag in words for flag in _INPUTS) else ["--input", "in"]
        for flag, value in (("--output", "out"), ("--name", "n")):
            words += [] if flag in words else [flag, value]
        return self._run(*words)

    def build(self, line: str, *more: object, files: Files | None = None) -> Built:
        """Run a command line, which must publish a version."""
        words = [*shlex.split(line), *map(str, more)]
        told = {flag: words[words.index(flag) + 1] for flag in ("--output", "--name", "--version") if flag in words}
        directory = self.folder / told.get("--output", "out") / told.get("--name", "n") / told.get("--version", "1.0.0")
        result = self.run(line, *more, files=files)
        assert result.status == 0, result.err
        return Built(directory, result.out + result.err)

    def refuse(self, line: str, sentence: str, *more: object, files: Files | None = None) -> None:
        """Run a command line that is a mistake: status 2, the sentence, and nothing on disk has changed.

        `…` in the sentence means any text.
        """
        self.write(files or {})
        before = self._tree()
        check_sentence(self.run(line, *more), 2, sentence)
        assert self._tree() == before

    def fail(self, line: str, sentence: str, *more: object, files: Files | None = None) -> None:
        """Run a job that must not publish: status 1, the sentence, and no new version."""
        before = set(self.folder.glob("out/**/_SUCCESS"))
        check_sentence(self.run(line, *more, files=files), 1, sentence)
        assert set(self.folder.glob("out/**/_SUCCESS")) == before

    def _tree(self) -> tuple[list[Path], dict[str, bytes]]:
        return sorted(self.folder.rglob("*")), tree_bytes(self.folder)


def each_mistake(mistakes: Iterable[tuple[Files, Mapping[str, str]]]) -> pytest.MarkDecorator:
    """Parametrize a test over commands that are mistakes among files, with their sentences."""
    rows = [(files, *row) for files, sentences in mistakes for row in sentences.items()]
    shown = [ascii(line)[:60] for _, line, _ in rows]
    return pytest.mark.parametrize(("files", "line", "sentence"), rows, ids=shown)


def check_sentence(result: Result, status: int, sentence: str) -> None:
    """Check how a command ended, and that it printed one sentence, in which `…` means any text."""
    assert (result.status, result.out) == (status, ""), result
    assert result.err.startswith("shardmill: error: "), result.err
    assert all(line.startswith("  ") for line in result.err.split("\n")[1:-1]), result.err
    rest = result.err
    for words in sentence.split("…"):
        _, words_there, rest = rest.partition(words.strip())
        assert words_there or not words, f"{words!r} is not in order in {result.err!r}"
