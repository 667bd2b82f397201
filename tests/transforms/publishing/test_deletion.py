"""Deleting a version: wherever it ends, what is left is whole or no version, and the next deletion goes on with it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shardmill.errors import UserError
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing.catalog import delete_version, find_damage, list_published, list_versions
from tests.support.command import tree_bytes, write_files
from tests.support.faults import fail, faulty, in_child, kill
from tests.support.small_data_set import make_version

pytestmark = pytest.mark.slow

BESIDE = {
    "builds/1.0.0.json": b"{}",
    "builds/1.0.0.inputs": b"x",
    "builds/1.0.0.files/index-0.json": b"x",
    "builds/1.0.01": b"x",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions, of which LATEST names the second; the first has rejects, too."""
    parent = tmp_path_factory.mktemp("deletion") / "n"
    make_version(parent, "1.0.0")
    make_version(parent, "1.0.1", latest=True)
    write_files(parent, {"1.0.0/rejects/rejects-00000-of-00001.jsonl": b"{}\n", "builds/1.0.1.inputs": b"x", **BESIDE})
    return parent


def copied(two: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(two, tmp_path / "n"))


def delete(parent: Path, is_named: Callable[[], bool] = lambda: False) -> bool:
    return delete_version(str(parent / "1.0.0"), is_named)


def check_gone(parent: Path, before: dict[str, bytes]) -> None:
    """That the version is gone, and nothing else but what lay beside it for it."""
    gone = {name for name in before if name.startswith("1.0.0/")} | {
        "builds/1.0.0.inputs",
        "builds/1.0.0.files/index-0.json",
    }
    assert tree_bytes(parent) == {name: data for name, data in before.items() if name not in gone}
    assert not (parent / "1.0.0").exists()
    assert not (parent / "builds/1.0.0.files").exists()


def test_all_of_a_version_goes_and_nothing_else(two: Path, tmp_path: Path) -> None:
    parent, before = copied(two, tmp_path), tree_bytes(two)

    assert delete(parent)
    check_gone(parent, before)
    assert find_damage(str(parent / "1.0.1")) == ""


def operations(two: Path, tmp_path: Path, strike: Callable[[], None]) -> int:
    """How many file operations a deletion is."""
    with faulty(None, strike) as faults:
        delete(copied(two, tmp_path / "counted"))
    return faults.count


@pytest.mark.parametrize("strike", [kill, fail])
def test_wherever_it_is_interrupted_a_version_is_whole_or_none(
    two: Path, tmp_path: Path, strike: Callable[[], None]
) -> None:
    before = tree_bytes(two)
    number = operations(two, tmp_path, strike)
    assert number > 10
    outcomes = set()
    for at in range(number):
        parent = copied(two, tmp_path / str(at))

        def interrupted(parent: Path = parent, at: int = at) -> None:
            with faulty(at, strike):
                delete(parent)

        in_child(interrupted)
        assert find_damage(str(parent / "1.0.1")) == ""
        states = {state.version: state.published for state in list_versions(str(parent))}
        if (parent / "1.0.0/_SUCCESS").exists():
            outcomes.add("whole")
            assert tree_bytes(parent) == before
        else:
            with pytest.raises(UserError, match=r"published in .*: 1.0.1"):
                open_dataset(parent / "1.0.0")
            left = list((parent / "1.0.0").rglob("*")) if (parent / "1.0.0").exists() else []
            outcomes.add("begun" if left else "gone")
            assert states.get("1.0.0") in ((False,) if (parent / "1.0.0/manifest.json").exists() else (None,))
        if states.get("1.0.0") is not None:
            assert delete(parent)
            check_gone(parent, before)
    assert {"whole", "begun"} <= outcomes


def test_what_is_named_before_stays_untouched(two: Path, tmp_path: Path) -> None:
    parent = copied(two, tmp_path)

    assert not delete(parent, lambda: True)
    assert tree_bytes(parent) == tree_bytes(two)


def test_what_is_named_while_it_is_deleted_is_whole_again(two: Path, tmp_path: Path) -> None:
    """By a rollback that has seen its `_SUCCESS`, and wrote LATEST when it was deleted."""
    parent, answers = copied(two, tmp_path), iter([False, True])
    (parent / "1.0.0/_SUCCESS").write_bytes((parent / "1.0.1/_SUCCESS").read_bytes())

    assert not delete(parent, lambda: next(answers))
    assert find_damage(str(parent / "1.0.0")) == ""
    assert sorted(tree_bytes(parent)) == sorted(tree_bytes(two))
    assert [state.version for state in list_published(str(parent))] == ["1.0.1", "1.0.0"]


def test_what_is_left_of_one_is_not_made_whole_by_a_name(two: Path, tmp_path: Path) -> None:
    parent, answers = copied(two, tmp_path), iter([False, True])
    (parent / "1.0.0/_SUCCESS").unlink()
    next((parent / "1.0.0").glob("n-*")).unlink()

    assert not delete(parent, lambda: next(answers))
    assert not (parent / "1.0.0/_SUCCESS").exists()
