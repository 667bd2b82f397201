"""Workers' parts, inputs and label: pure tables."""

import warnings
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.data.features import Feature, infer_roles
from shardmill.errors import UserError
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.reading.dataset import choose_columns, find_split, labels_of, select_part


def split_of(*examples: int) -> SplitEntry:
    return SplitEntry("train", tuple(ShardEntry(f"s{index}", count, 1, "") for index, count in enumerate(examples)))


def manifest(*names: str, **configuration: object) -> Manifest:
    features = tuple(Feature(name, "bytes", "image" if name == "image" else "text") for name in names)
    marked = infer_roles(features, configuration)
    return Manifest("d", "1.0.0", "", marked, (split_of(1), SplitEntry("test", ())), configuration=configuration)


def taken(part: object, split: SplitEntry) -> list[tuple[str, int]]:
    """The examples of a part, by shard and index."""
    everything = [(shard.file, index) for shard in part.shards for index in range(shard.examples)]  # type: ignore[attr-defined]
    return everything[part.first :: part.step]  # type: ignore[attr-defined]


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 10))
def test_parts_are_disjoint_and_together_everything(examples: list[int], workers: int) -> None:
    split = split_of(*examples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [select_part(split, workers, worker) for worker in range(workers)]

    assert sorted(chain(*(taken(part, split) for part in parts))) == sorted(taken(select_part(split, 1, 0), split))
    assert [part.examples for part in parts] == [len(taken(part, split)) for part in parts]


def test_fewer_shards_than_workers_is_warned_of() -> None:
    with pytest.warns(
        UserWarning, match="has 2 shards for 3 workers: each reads all of them and keeps one of 3 examples"
    ):
        assert select_part(split_of(4, 4), 3, 1).step == 3


@pytest.mark.parametrize(
    ("workers", "worker", "message"),
    [(0, 0, "num_workers is 0"), (2, 2, "worker_index is 2; expected 0 to 1"), (2, -1, "worker_index is -1")],
)
def test_a_worker_that_there_is_not(workers: int, worker: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        select_part(split_of(4, 4), workers, worker)


def test_an_unknown_split_is_told_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"d 1\.0\.0 has no split 'tran'; it has train, test"):
        find_split(manifest("a"), "tran")


def columns(
    described: Manifest, names: list[str] | None = None, label: str | list[str] | None = None, supervised: bool = True
) -> tuple[object, ...]:
    chosen = choose_columns(described, names, label, supervised)
    labels = [feature.name for feature in chosen.labels]
    return [feature.name for feature in chosen.inputs], labels[0] if len(labels) == 1 else labels or None


IMAGES = ("image", "label", "filename", "height", "width", "caption")


@pytest.mark.parametrize(
    ("described", "options", "expected"),
    [
        (manifest(*IMAGES), {}, (["image", "caption"], "label")),
        (manifest(*IMAGES), {"names": ["image", "height"]}, (["image", "height"], "label")),
        (manifest(*IMAGES), {"label": "caption"}, (["image", "label"], "caption")),
        (manifest(*IMAGES), {"supervised": False}, (["image", "label", "caption"], None)),
        (manifest("image", "filename"), {}, (["image"], None)),
        (manifest("text", "filename", "line_number", format="lines"), {}, (["text"], None)),
        (manifest("text", "label", "filename", format="text files"), {}, (["text"], "label")),
        (manifest("filename", "height", format="csv", label=None), {}, (["filename", "height"], None)),
        (manifest("a", "b", "city", format="csv", label="city"), {}, (["a", "b"], "city")),
        (manifest("a", "label", format="csv", label=None), {}, (["a"], "label")),
        (manifest("a", "b", "c", format="csv", label=["b", "c"]), {}, (["a"], ["b", "c"])),
        (manifest("a", "b", "c", format="csv", label=["b", "c"]), {"label": ["c", "a"]}, (["b"], ["c", "a"])),
    ],
)
def test_inputs_and_label(described: Manifest, options: dict[str, object], expected: tuple[object, ...]) -> None:
    assert columns(described, **options) == expected  # type: ignore[arg-type]


def test_labels_of() -> None:
    assert labels_of(manifest("a", format="csv", label=None)) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a", "c"]}, "d has no feature 'c'; it has a, b, label"),
        ({"label": "c"}, "d has no feature 'c'"),
        ({"label": "b", "supervised": False}, "label='b' makes no sense with supervised=False"),
        ({"names": "a"}, r"features='a' is one string; expected a list of names: \['a'\]"),
        ({"names": []}, "d has no input except the label 'label'"),
    ],
)
def test_columns_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        columns(manifest("a", "b", "label", format="csv"), **options)  # type: ignore[arg-type]


def test_roles_go_before_names_and_the_options_of_the_writer() -> None:
    features = (
        Feature("filename", "bytes", "image"),
        Feature("label", "int64"),
        Feature("place", "bytes", "text", role="source"),
        Feature("kind", "int64", role="label"),
    )
    made = Manifest("d", "1.0.0", "", features, (split_of(1),), configuration={"label": "filename"})

    assert columns(made) == (["filename", "label"], "kind")
