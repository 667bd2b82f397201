"""Input that cannot be listed or read is reported alike, however the input is named and of whatever kind it is."""

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill.data.example import encode_example
from shardmill.data.tfrecord import frame_record
from shardmill.transforms.inputs import listing
from shardmill.transforms.inputs.folders import FileKind
from tests.support.command import Process, Run, bind_root_to_permissions, image, write_files
from tests.support.sounds import wav


def _array(number: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.full((2, 2), number, np.float32))
    return out.getvalue()


# By the kind: its command, the suffix of its files, and the content of one by a number
KINDS: Mapping[str, tuple[str, str, Callable[[int], bytes]]] = {
    "images": ("images", "jpg", image),
    "arrays": ("arrays", "npy", _array),
    "audio": ("audio", "wav", lambda number: wav(number=number)),
    "texts": ("text --record file", "txt", lambda number: b"text %d" % number),
    "csv": ("csv", "csv", lambda number: b"n\n%d\n" % number),
    "jsonl": ("jsonl", "jsonl", lambda number: b'{"n": %d}\n' % number),
    "reshard": ("reshard", "tfrecord", lambda number: frame_record(encode_example({"n": [number]}))),
}
TOLERANT = ("--on_damaged_file", "reject", "--max_reject_fraction", "0.9")
WAYS = {
    "folder": "--input {0}",
    "glob": "--input {0}/*/*.{1}",
    "deep glob": "--input {0}/**/*.{1}",
    "choices": "--input {0}/{{a,locked,shut,away}}",
    "choices of globs": "--input {0}/{{a,locked,shut,away}}/*.{1}",
}
SPLITS = {"named split": "--input train={0}", "glob of a named split": "--input train={0}/*/*.{1}"}


def rejects_in(version: Path) -> list[dict[str, Any]]:
    """The lines in rejects/."""
    lines = (line for path in sorted(version.glob("rejects/*")) for line in path.read_text().splitlines())
    return list(map(json.loads, lines))


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Make a folder of files of a kind, with every fault that a disk has."""

    def make(kind: str) -> Path:
        _, suffix, content = KINDS[kind]
        names = [f"a/{number}.{suffix}" for number in range(3)]
        names += [f"a/secret.{suffix}", f"locked/1.{suffix}", f"shut/1.{suffix}", f"b/1.{suffix}"]
        folder = write_files(tmp_path / "in", {name: content(number) for number, name in enumerate(names)})
        (folder / f"a/gone.{suffix}").symlink_to("nowhere")
        (folder / "b").rename(tmp_path / "elsewhere")
        (folder / "away").symlink_to(tmp_path / "elsewhere" / "inner")
        (tmp_path / "elsewhere" / "inner").mkdir()
        for path, mode in ((f"a/secret.{suffix}", 0), ("locked", 0), ("shut", 0o444), ("../elsewhere", 0)):
            (folder / path).chmod(mode)
        return folder

    yield make
    for name in ("in/locked", "in/shut", "elsewhere"):
        (tmp_path / name).chmod(0o755)


def reasons(tmp_path: Path, *words: object) -> dict[str, str]:
    """Run a job that accepts rejects as a user who is bound to permissions; the reason for each reject."""
    command = (*words, "--output", tmp_path / "out", "--name", "d", *TOLERANT)
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    assert result.status == 0, result.err
    return {item["source"].rstrip("/"): item["reason"] for item in rejects_in(tmp_path / "out" / "d" / "1.0.0")}


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *((way, kind) for way in WAYS for kind in KINDS),
        *((way, "reshard") for way in SPLITS),
    ],
)
def test_every_fault_is_a_reject(way: str, kind: str, faulty: Callable[[str], Path], tmp_path: Path) -> None:
    command, suffix, _ = KINDS[kind]
    flags = (WAYS | SPLITS)[way].format(faulty(kind), suffix)

    found = reasons(tmp_path, *command.split(), *flags.split())
    assert {source.removeprefix("train/"): reason for source, reason in found.items()} == {
        f"a/secret.{suffix}": "cannot be read: Permission denied",
        f"a/gone.{suffix}": "dangling or looping symbolic link: No such file or directory",
        "locked": "cannot list the folder: Permission denied",
        f"shut/1.{suffix}": "Permission denied",
        "away": "cannot list the folder: Permission denied",
    }


@pytest.mark.parametrize("way", [*WAYS, "recipe"])
@pytest.mark.parametrize("kind", ["images", "csv"])
def test_a_folder_that_cannot_be_listed_fails_the_job(
    way: str, kind: str, faulty: Callable[[str], Path], tmp_path: Path
) -> None:
    """Nobody knows how much is lost."""
    command, suffix, _ = KINDS[kind]
    folder = faulty(kind)
    words = [command, *WAYS.get(way, "").format(folder, suffix).split(), "--output", str(tmp_path), "--name", "d"]
    if way == "recipe":
        recipe = tmp_path / "d.yaml"
        recipe.write_text(f"name: d\noutput: {tmp_path}\n{command}:\n  input: {folder}/*/*.{suffix}\n")
        words = ["rebuild", str(recipe)]
    words += ["--max_reject_fraction", "0.9"] if way != "recipe" else []
    result = Process(tmp_path / "process", *words, before=bind_root_to_permissions).result()
    assert result.status == 1, result
    assert not (tmp_path / "d" / "1.0.0").exists()


def test_a_manifest_names_the_same_rejects(faulty: Callable[[str], Path], tmp_path: Path) -> None:
    folder = faulty("images")
    names = ["a/0.jpg", "a/secret.jpg", "a/gone.jpg", "locked/1.jpg", "shut/1.jpg", "away/1.jpg"]
    (folder / "list.csv").write_text("\n".join(["file_name", *names]) + "\n")

    found = reasons(tmp_path, "images", "--manifest", folder / "list.csv", "--allow_outside")
    denied = "cannot be read: Permission denied"
    assert found == {
        **dict.fromkeys(("a/secret.jpg", "locked/1.jpg", "shut/1.jpg", "away/1.jpg"), denied),
        "a/gone.jpg": "no such file",
    }


def test_manifests_of_a_glob_of_which_one_cannot_be_found(faulty: Callable[[str], Path], tmp_path: Path) -> None:
    folder = faulty("images")
    (folder / "a" / "list.csv").write_text("file_name\n0.jpg\n")
    words = ("images", "--manifest", f"{folder}/*/list.csv", "--output", tmp_path / "out", "--name", "d")
    result = Process(tmp_path / "process", *words, before=bind_root_to_permissions).result()
    assert (result.status, "cannot list the folder: Permission denied" in result.err) == (2, True), result


@pytest.mark.parametrize("pattern", ["{0}", "{0}/*/*.jpg", "{0}/**/*.jpg"])
def test_a_dangling_link_to_a_folder_is_shown(run: Run, tmp_path: Path, pattern: str) -> None:
    folder = write_files(tmp_path / "in", {f"a/{number}.jpg": image(number) for number in range(2)})
    (folder / "b").symlink_to("nowhere")
    result = run("images", "--input", pattern.format(folder), "--output", tmp_path / "out", "--name", "d")
    assert result.status == 0
    assert "passed over 1 broken symbolic link, such as 'b'" in result.out


@pytest.mark.parametrize("pattern", ["{0}", "{0}/*/*.{1}", "{0}/**/*.{1}"])
@pytest.mark.parametrize(
    ("kind", "name"), [("images", "@eaDir/1.jpg"), ("parquet", "_temporary/1.parquet"), ("parquet", "a/_x.parquet")]
)
def test_files_of_systems_are_no_input(kind: str, name: str, pattern: str, tmp_path: Path) -> None:
    suffix = name.rpartition(".")[2]
    folder = write_files(tmp_path / "in", dict.fromkeys((f"a/1.{suffix}", name), b"x"))
    (tmp_path / "in" / ".git").mkdir()
    files = FileKind(kind, suffix, is_parquet=kind == "parquet")
    found = list(listing.list_input(pattern.format(folder, suffix), files))

    assert [item.name for item in found if isinstance(item, listing.FoundFile)] == [f"a/1.{suffix}"]
    skipped = [item.name for item in found if isinstance(item, listing.Skipped) and item.name != ".git"]
    assert skipped == [name if "_x" in name else name.partition("/")[0]]


@pytest.mark.parametrize("command", ["csv", "jsonl", "text"])
def test_a_file_that_vanishes_after_it_was_listed_is_a_reject(
    command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix, content = {"csv": ("csv", b"n\n1\n"), "jsonl": ("jsonl", b'{"n": 1}\n'), "text": ("txt", b"a\n")}[command]
    folder = write_files(tmp_path / "in", {f"{name}.{suffix}": content for name in ("a", "b")})
    list_files = listing.RecordFiles.list_files

    def list_and_delete(*arguments: Any) -> Iterator[Any]:
        yield from list_files(*arguments)
        (folder / f"b.{suffix}").unlink()

    monkeypatch.setattr(listing.RecordFiles, "list_files", list_and_delete)
    result = run(command, "--input", folder, "--output", tmp_path / "out", "--name", "d", *TOLERANT)
    assert result.status == 0, result.err
    assert ["No such file" in item["reason"] for item in rejects_in(tmp_path / "out" / "d" / "1.0.0")] == [True]


@pytest.mark.parametrize("kind", ["images", "arrays", "audio"])
def test_a_member_of_an_archive_that_cannot_be_read_is_a_reject(kind: str, run: Run, tmp_path: Path) -> None:
    command, suffix, content = KINDS[kind]
    archive = tmp_path / "in.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(3):
            file.writestr(f"a/{number}.{suffix}", content(number))
    data = bytearray(archive.read_bytes())
    data[data.index(content(1)) + len(content(1)) - 2] ^= 1
    archive.write_bytes(data)
    result = run(*command.split(), "--input", archive, "--output", tmp_path / "out", "--name", "d", *TOLERANT)

    assert result.status == 0, result.err
    (reject,) = rejects_in(tmp_path / "out" / "d" / "1.0.0")
    assert reject["source"] == f"a/1.{suffix}"
    assert "it is damaged: its checksum is another" in reject["reason"]


def test_links_to_folders_are_followed_by_annotations_too(run: Run, tmp_path: Path) -> None:
    """Rejects are the same as by --input alone."""
    elsewhere = write_files(
        tmp_path / "elsewhere",
        {
            f"{kind}/{number}.{suffix}": data
            for kind, suffix, data in (("images", "jpg", image()), ("labels", "txt", b"0 .5 .5 .2 .2\n"))
            for number in range(4)
        },
    )
    folder = write_files(tmp_path / "yolo", {"data.yaml": json.dumps({"train": "images", "names": ["ant"]}).encode()})
    for name in ("images", "labels"):
        os.symlink(elsewhere / name, folder / name)
    result = run(
        "images", "--yolo", folder / "data.yaml", "--allow_outside", "--output", tmp_path / "out", "--name", "d"
    )
    assert result.status == 0, result.err
    assert "4 examples" in result.out + result.err or " 4 " in result.out
