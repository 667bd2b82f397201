"""Features describe themselves, and refuse what they cannot be."""

from collections.abc import Callable
from functools import partial

import pytest

from shardmill.data.features import Feature


@pytest.mark.parametrize(
    ("feature", "dense"),
    [
        (Feature("a", "int64"), True),
        (Feature("a", "float32", shape=(4,)), True),
        (Feature("a", "float32", shape=(None,)), False),
        (Feature("a", "int64", required=False), False),
        (Feature("a", "float32", shape=(4,), required=False), False),
    ],
)
def test_dense(feature: Feature, dense: bool) -> None:
    assert feature.is_dense is dense


@pytest.mark.parametrize(
    "feature",
    [
        partial(Feature, "a", "float32", shape=(2, None)),
        partial(Feature, "a", "bytes", "array", (3, None), element="uint8"),
    ],
)
def test_a_size_that_cannot_be_unknown_is_refused(feature: Callable[[], Feature]) -> None:
    with pytest.raises(ValueError, match=r"feature 'a' has shape .*; expected no size.* to be None"):
        feature()


@pytest.mark.parametrize(
    "feature", [partial(Feature, "a", "bytes", "array"), partial(Feature, "a", "float32", "array", element="float32")]
)
def test_an_array_is_bytes_with_an_element_type(feature: Callable[[], Feature]) -> None:
    with pytest.raises(ValueError, match=r"feature 'a' is array of .*; an array is bytes with an element type"):
        feature()


def test_a_class_label_is_an_integer() -> None:
    with pytest.raises(ValueError, match="feature 'label' is a class label of bytes; expected int64"):
        Feature("label", "bytes", "class_label")
