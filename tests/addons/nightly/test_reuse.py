"""A rebuild reads what is new or changed, and takes the rest from the version before."""

from functools import partial
from pathlib import Path

import pytest

from tests.support.command import LONG_AGO, Process, Run, image, image_tree, tree_bytes, write_old_files
from tests.support.processes import forbid_at

IMAGES = """\
name: pets
output: {root}/sets
fingerprint: {fingerprint}
images:
  input: {root}/in
  folders: label
"""


@pytest.mark.parametrize("fingerprint", ["metadata", "content"])
def test_images_that_did_not_change_are_not_read_again(run: Run, tmp_path: Path, fingerprint: str) -> None:
    path = tmp_path / "pets.yaml"
    path.write_text(IMAGES.format(root=tmp_path, fingerprint=fingerprint))
    write_old_files(tmp_path / "in", image_tree(("cat", "dog"), 10))
    first = run("rebuild", path)
    write_old_files(tmp_path / "in", {"cat/000.jpg": image(77), "ant/new.jpg": image(78)}, LONG_AGO + 1)

    second = run("rebuild", path)

    assert (first.status, second.status) == (0, 0), (first.err, second.err)
    if fingerprint == "content":
        assert "pets: all files were read: with fingerprint: content" in second.out
        return
    assert "pets: all 20 files were read: there is no older version to take examples from\n" in first.out
    assert "pets: 19 of 21 files taken from 1.0.0, the others read\n" in second.out
    full = run("rebuild", path, "--force", "--full")
    assert "files taken" not in full.out
    two, three = (tree_bytes(tmp_path / "sets/pets" / version) for version in ("1.0.1", "1.0.2"))
    assert {name: data for name, data in two.items() if "tfrecord" in name} == {
        name: data for name, data in three.items() if "tfrecord" in name
    }
    assert "pets: 21 of 21 files taken from 1.0.2" in run("rebuild", path, "--force").out


@pytest.mark.parametrize("fingerprint", ["metadata", "content"])
def test_a_file_that_a_build_could_not_read_is_read_the_next_night(run: Run, tmp_path: Path, fingerprint: str) -> None:
    """It could be read when the night looked at its input, and again later: neither its time nor content changed."""
    path, file = tmp_path / "pets.yaml", tmp_path / "in/cat/000.jpg"
    path.write_text(IMAGES.format(root=tmp_path, fingerprint=fingerprint))
    write_old_files(tmp_path / "in", image_tree(("cat", "dog"), 15))
    first = Process(
        tmp_path / "p", "rebuild", path, before=partial(forbid_at, "os.mkdir", "beam-temp-", [file])
    ).result()
    file.chmod(0o600)

    assert "29 in train; 1 rejected" in first.out, first.err
    assert "pets: 1 file could not be read for 1.0.0\n" in run("rebuild", path).out
    assert run("rebuild", path).out == "pets: unchanged since 1.0.1: 30 files\n"
