"""Features describe themselves, and refuse what they cannot be."""

import pytest

from shardmill.features import Feature


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


def test_more_than_one_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match=r"feature 'box' has shape \(2, 2\); expected at most one dimension"):
        Feature("box", "float32", shape=(2, 2))


def test_a_class_label_is_an_integer() -> None:
    with pytest.raises(ValueError, match="feature 'label' is a class label of bytes; expected int64"):
        Feature("label", "bytes", "class_label")
