"""Lists of ids as zeros and ones."""

import pytest

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.reading.tensor_examples import multi_hot, multi_hot_classes
from tests.support.later import Later

tf = Later("tensorflow")

TAGS = Feature("tags", "int64", "class_label", (None,), class_names=("a", "b", "c"))
IDS = Feature("ids", "int64", shape=(None,))
OBJECTS = Feature("objects/label", "int64", "class_label", (None,), class_names=("a",), sequence="objects")


def test_each_class_is_one_however_often() -> None:
    ids = tf.ragged.constant([[2, 0], [], [1, 1]], dtype=tf.int64)

    assert multi_hot(ids, 3).numpy().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert multi_hot(ids, 3).dtype == tf.float32


@pytest.mark.parametrize(("ids", "message"), [([[3]], "an id is of no class"), ([[-1]], "an id of a class is below 0")])
def test_an_id_of_no_class(ids: list[list[int]], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        multi_hot(tf.ragged.constant(ids, dtype=tf.int64), 3)


def test_which_features_it_is_for() -> None:
    assert multi_hot_classes((TAGS, IDS), False) == {}
    assert multi_hot_classes((TAGS, IDS, OBJECTS), True) == {"tags": 3}
    assert multi_hot_classes((TAGS, IDS), 10) == {"tags": 3, "ids": 10}
    with pytest.raises(UserError, match=r"'ids' is a list of integers whose classes nobody named; give their number"):
        multi_hot_classes((IDS,), True)
    with pytest.raises(UserError, match="none of what is read is one: objects/label"):
        multi_hot_classes((OBJECTS,), True)
    with pytest.raises(UserError, match="multi_hot is 0; expected True, or a number of classes"):
        multi_hot_classes((IDS,), 0)
