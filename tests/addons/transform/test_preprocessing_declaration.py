"""What a transform.yaml says, and each mistake with its feature, key and line."""

import json
import re

import pytest

from shardmill.addons.transform.analyses import DeclaredAnalysis
from shardmill.addons.transform.preprocessing_declaration import Declaration, Fill
from shardmill.addons.transform.preprocessing_sources import parse_transform
from shardmill.data.features import NO_RENAMES, Feature, Renames
from shardmill.errors import UserError

WHOLE = """\
age: z_score
fare: [log1p, scale_0_1]
city: {vocabulary: {top_k: 1000, num_oov_buckets: 1}}
review:
  - lower
  - tokenize: "[^a-z]+"
  - vocabulary: {frequency_threshold: 2, default_value: -7}
income:
  - {min_max: [-1, 1], output: income_scaled}
  - bucketize: {num_buckets: 10}
    one_hot: true
    output: income_bucket
tag: [{fill: none}, {hash: {hash_buckets: 100}}]
years: {bucketize: {boundaries: [18, 30, 65]}}
id: drop
"""
FEATURES = (
    Feature("age", "float32", required=False),
    Feature("fare", "float32"),
    Feature("city", "bytes"),
    Feature("review", "bytes", required=False),
    Feature("income", "int64"),
    Feature("tag", "bytes", required=False),
    Feature("years", "int64"),
    Feature("id", "int64"),
    Feature("sizes", "int64", shape=(None,), required=False),
    Feature("label", "int64", "class_label", class_names=("no", "yes")),
)


def parsed(text: str) -> Declaration:
    return parse_transform(text.encode(), "t.yaml")


def test_features_that_are_not_named_stay_and_those_that_are_dropped_go() -> None:
    whole = parsed(WHOLE).with_all_features(FEATURES)

    assert [chain.name for chain in whole.chains if not chain.steps] == ["sizes", "label"]
    assert "id" not in [chain.feature for chain in whole.chains]


def test_names_are_those_of_examples_or_of_the_input() -> None:
    renames = Renames((("age", "years"), ("years", "age"), ("id", "number")))

    found = parsed("years: log1p\nnumber: drop").of_input(renames)

    assert [chain.feature for chain in found.chains] == ["age"]
    assert [name for name, _ in found.dropped] == ["id"]
    assert parsed("id: drop").of_input(renames).dropped[0][0] == "id"
    with pytest.raises(UserError, match="feature 'number_' is not there; did you mean number"):
        parsed("number_: drop").of_input(renames).check(FEATURES, renames)


def test_it_is_read_back_from_the_manifest() -> None:
    declaration = parsed(WHOLE)

    again = Declaration.from_json(json.loads(json.dumps(declaration.to_json())))

    assert again.to_json() == declaration.to_json()
    assert [chain.steps for chain in again.chains] == [chain.steps for chain in declaration.chains]


def test_a_dry_run_says_what_was_understood() -> None:
    parsed(WHOLE).check(FEATURES)

    assert parsed(WHOLE).describe_outputs(FEATURES) == [
        "age: age | z_score -> float32, may be missing",
        "fare: fare | log1p | min_max(low=0.0, high=1.0) -> float32",
        "city: city | vocabulary(top_k=1000, num_oov_buckets=1, default_value=-1) -> int64",
        "review: review | lower | tokenize(pattern=[^a-z]+)"
        " | vocabulary(frequency_threshold=2, num_oov_buckets=0, default_value=-7) -> lists of int64",
        "income_scaled: income | min_max(low=-1.0, high=1.0) -> float32",
        "income_bucket: income | bucketize(num_buckets=10) | one_hot -> lists of float32",
        "tag: tag | fill(value=none) | hash(hash_buckets=100) -> int64",
        "years: years | boundaries(boundaries=[18.0, 30.0, 65.0]) -> int64",
        "as they are: sizes, label",
        "dropped: id",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "t.yaml is empty; expected a transform"),
        ("[age]", "line 1: a list; expected a transform"),
        ("age: z_score\n---\nage: z_score", "line 3: another document begins"),
        ("\nage: zscore", "line 2: feature 'age': unknown step 'zscore'; did you mean z_score?"),
        ("age: z_score\nage: z_score", "line 2: 'age' is there twice"),
        ("age: [[z_score]]", "line 1: age: a list in a list"),
        ("age: {z_score: 3}", "feature 'age': z_score has no parameters"),
        ("age: fill", "feature 'age': fill takes a value"),
        ("age: {fill: [1]}", "feature 'age': fill takes one value"),
        ("age: {fill: old}", "feature 'age': fill: 'old' is no float32"),
        ("sizes: {fill: 1}", "feature 'sizes': fill takes features with one value"),
        ("age: {min_max: [1]}", "feature 'age': min_max takes what the least and the greatest"),
        ("age: {min_max: [1, 1]}", "feature 'age': min_max: [1, 1]; expected the smaller number first"),
        ("age: {min_max: [0, inf]}", "feature 'age': inf is not a finite number"),
        ("age: bucketize", "feature 'age': bucketize takes num_buckets or boundaries"),
        ("age: {bucketize: {num_buckets: 1}}", "num_buckets is 1; expected 2 or more"),
        ("age: {bucketize: {boundaries: [2, 1]}}", "expected boundaries that ascend"),
        (
            "city:\n  vocabulary:\n    top-k: 1",
            "line 3: feature 'city': vocabulary has no 'top-k'; did you mean top_k?",
        ),
        ("city: {vocabulary: {top_k: many}}", "feature 'city': vocabulary: top_k: 'many' is not a whole number"),
        ("city: {vocabulary: {top_k: 0}}", "top_k is 0; expected 1 or more"),
        ("city: {vocabulary: {num_oov_buckets: 1, default_value: 0}}", "default_value has no effect"),
        ("city: hash", "feature 'city': hash takes hash_buckets"),
        ("city: {tokenize: '('}", "'(' is no regular expression"),
        ("city: {tokenize: 'x(?=y)'}", "'x(?=y)' is no regular expression of RE2"),
        ("city: {tokenize: 'x*'}", "'x*' matches the empty text"),
        ("city: {tokenize: ' *'}", "matches the empty text"),
        ("age: [z_score, drop]", "feature 'age': drop is among other steps"),
        ("age: {output: x}", "output x: expected a step before it"),
        (
            "age:\n  - z_score\n  - bucketize: {num_buckets: 3}",
            "line 2: feature 'age': z_score and bucketize in one chain",
        ),
        ("agge: z_score", "line 1: feature 'agge' is not there; did you mean age?"),
        ("agge: drop", "line 1: feature 'agge' is not there; did you mean age?"),
        ("city: z_score", "feature 'city': z_score takes numbers, and the values are bytes"),
        ("city: log1p", "feature 'city': log1p takes numbers"),
        ("age: lower", "feature 'age': lower takes texts, and the values are float32"),
        ("income: {hash: {hash_buckets: 3}}", "feature 'income': hash takes texts"),
        ("age: vocabulary", "feature 'age': a vocabulary takes texts or int64, and the values are float32"),
        ("age: one_hot", "feature 'age': one_hot takes ids"),
        ("age: [z_score, one_hot]", "feature 'age': one_hot takes ids"),
        ("review: [tokenize, vocabulary, one_hot]", "one_hot takes features with one value"),
        ("age: {z_score: true, output: city}", "output 'city' is that of feature 'city', which stays as it is, too"),
        (
            "age: {z_score: true, output: x}\nfare: {z_score: true, output: x}",
            "line 2: feature 'fare': output 'x' is that of feature 'age' (t.yaml line 1) too",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        parsed(text).check(FEATURES)


def test_outputs_are_compared_by_what_features_are_renamed_to() -> None:
    declaration = parsed("age: {z_score: true, output: town}")

    declaration.check(FEATURES)
    with pytest.raises(UserError, match="output 'town' is that of feature 'city'"):
        declaration.check(FEATURES, Renames((("city", "town"),)))


def test_all_features_cannot_be_dropped() -> None:
    with pytest.raises(UserError, match="all features are dropped"):
        parsed("age: drop").check(FEATURES[:1])


def test_constants_are_taken_of_splits_that_are_there() -> None:
    def check(text: str) -> None:
        analysis = DeclaredAnalysis(flag="", declaration=parsed(text), splits=("train",), renames=NO_RENAMES)
        analysis.check(FEATURES, ("a", "b"))

    check("age: log1p")
    with pytest.raises(UserError, match=r"there is no split 'train' .* the splits are a, b; --analyze_splits"):
        check("age: z_score")


def test_fills_are_exact() -> None:
    assert Fill(str(2**53 + 1)).parse_value("int64") == 2**53 + 1
    assert Fill("1.5").parse_value("float32") == 1.5
