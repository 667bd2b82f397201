"""Limits in a schema.pbtxt; class names and their ids."""

from itertools import permutations

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames, parse_labels, resolve_class_names
from shardmill.metadata.schema import from_pbtxt, schema_requests, to_pbtxt

GIVEN = """
feature {
  name: "amount" type: FLOAT presence { min_fraction: 0.9 min_count: 7 }
  drift_comparator { jensen_shannon_divergence { threshold: 0.1 } }
  value_count { min: 1 max: 1 }
  float_domain { min: 0 max: 10 }
  annotation { tag: "money" }
}
feature {
  name: "kind" type: INT presence { min_fraction: 1 min_count: 5 } shape {}
  skew_comparator { infinity_norm { threshold: 0.01 } }
  int_domain { min: 0 max: 2 is_categorical: true }
}
feature { name: "when" type: INT value_count { min: 1 max: 1 } time_domain { integer_format: UNIX_MICROSECONDS } }
feature { name: "day" type: INT value_count { min: 1 max: 1 } time_domain { integer_format: UNIX_DAYS } }
feature { name: "words" type: BYTES value_count { min: 1 max: 9 } domain: "words" lifecycle_stage: BETA }
feature { name: "plain" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 3 } } }
string_domain { name: "words" value: "a" value: "b" }
dataset_constraints { min_examples_count: 100 }
default_environment: "TRAINING"
weighted_feature { name: "weighted" feature { step: "words" } weight_feature { step: "amount" } }
"""


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


def test_what_is_asked_is_published_again() -> None:
    made = to_pbtxt(from_pbtxt(GIVEN), schema_requests(GIVEN))

    assert parsed(made) == parsed(GIVEN)
    assert from_pbtxt(made) == from_pbtxt(GIVEN)
    assert schema_requests(made) == schema_requests(GIVEN)


@pytest.mark.parametrize(
    "feature",
    [
        Feature("x", "int64"),
        Feature("x", "float32", "tensor", (None,), required=False),
        Feature("x", "float32", "tensor", (None, 4)),
        Feature("x", "bytes", "image"),
        Feature("x", "int64", "bool"),
        Feature("x", "bytes", "array", (28, 28), element="uint8"),
        Feature("x", "int64", "class_label", class_names=("a", "b")),
        Feature("x", "bytes", "text", required=False),
    ],
)
def test_what_a_feature_is_is_not_asked(feature: Feature) -> None:
    assert schema_requests(to_pbtxt((feature,))) == ""


def test_what_a_feature_has_become_stands_in_place_of_what_is_asked() -> None:
    """A column of strings that is the label now."""
    given = """feature {
      name: "kind" type: BYTES string_domain { value: "a" value: "b" }
      drift_comparator { infinity_norm { threshold: 0.5 } }
    }"""
    label = Feature("kind", "int64", "class_label", class_names=("a", "b"))

    (made,) = parsed(to_pbtxt((label,), schema_requests(given))).feature

    assert (made.type, made.int_domain.max, made.WhichOneof("domain_info")) == (schema_pb2.INT, 1, "int_domain")
    assert made.drift_comparator.infinity_norm.threshold == 0.5


def test_of_features_that_are_left_out_nothing_is_asked_and_names_are_those_that_others_get() -> None:
    amount = next(feature for feature in from_pbtxt(GIVEN) if feature.name == "amount")
    made = parsed(to_pbtxt((amount,), schema_requests(GIVEN)))

    assert [feature.name for feature in made.feature] == ["amount"]
    assert not made.weighted_feature
    assert made.dataset_constraints.min_examples_count == 100
    asked = parsed(schema_requests(GIVEN, lambda name: {"amount": "price"}.get(name, name)))
    assert [feature.name for feature in asked.feature] == ["price", "kind", "day", "words"]


FROZEN = ("rose", "daisy")


def test_ids_are_positions_and_follow_the_sorted_names_whatever_the_order_found() -> None:
    classes = ClassNames(FROZEN)

    assert (classes.id("rose"), classes.id("daisy"), classes.id("tulip"), len(classes)) == (0, 1, None, 2)
    for found in permutations(["tulip", "daisy", "Rose", "daisy"]):
        assert resolve_class_names(found, None, "fail").names == ("Rose", "daisy", "tulip")


@pytest.mark.parametrize(
    ("found", "on_new_label", "names"),
    [
        (["daisy"], "fail", ("rose", "daisy")),
        ([], "fail", ("rose", "daisy")),
        (["tulip", "aster", "rose"], "append", ("rose", "daisy", "aster", "tulip")),
        (["tulip", "rose"], "reject", ("rose", "daisy")),
    ],
)
def test_frozen_names_keep_their_ids(found: list[str], on_new_label: str, names: tuple[str, ...]) -> None:
    assert resolve_class_names(found, ("rose", "daisy"), on_new_label).names == names


@pytest.mark.parametrize(
    ("found", "labels", "sentence"),
    [
        (["rse", "rose"], FROZEN, r"^class 'rse' \(did you mean 'rose'\?\) is in the input but not in --labels_file; "),
        (
            ["zebra"],
            FROZEN,
            "^class 'zebra' is in the input but not in --labels_file; .*--on_new_label append .* or rej",
        ),
        (["zebra", "ant", "bee"], FROZEN, "^class 'ant' and 2 more are in the input"),
        *(([name], None, "rename the class") for name in ("a\nb", "a\rb", " a", "a ", "")),
    ],
)
def test_a_class_that_cannot_be_is_named(found: list[str], labels: tuple[str, ...] | None, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        resolve_class_names(found, labels, "fail")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        *((text, ("rose", "daisy")) for text in ("rose\ndaisy\n", "rose\ndaisy", "rose\r\ndaisy\r\n")),
        ("\ufeffrose\n", ("rose",)),
        ("wild rose\nmärz\n", ("wild rose", "märz")),
    ],
)
def test_labels_files(text: str, names: tuple[str, ...]) -> None:
    assert parse_labels(text, "labels.txt") == names


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--labels_file labels.txt is empty"),
        ("rose\nrose\n", "class name 'rose' is twice"),
        ("rose\n\ndaisy\n", "class name '' cannot be in a labels file"),
        ("rose \n", "class name 'rose ' cannot be in"),
        (" \n", "class name ' ' cannot be in"),
    ],
)
def test_bad_labels_files(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        parse_labels(text, "labels.txt")
