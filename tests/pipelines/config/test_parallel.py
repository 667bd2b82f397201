"""Several --input of `shardmill text`: each has a name."""

from pathlib import Path

import pytest

from shardmill.pipelines.config.records import parse_inputs
from shardmill.transforms.options.declare import OptionValueError


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ("a=b.txt", (("", "a=b.txt"),)),
        (["x.txt"], (("", "x.txt"),)),
        (["de=a.de", "en=gs://b/a.en"], (("de", "a.de"), ("en", "gs://b/a.en"))),
        ({"de": "a.de", "en": "a=.en"}, (("de", "a.de"), ("en", "a=.en"))),
        ((("de", "a.de"), ("en", "a.en")), (("de", "a.de"), ("en", "a.en"))),
    ],
)
def test_what_is_given(given: object, inputs: object) -> None:
    assert parse_inputs(given) == inputs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a.txt", "b.txt"], r"a.txt is one of several inputs and has no name; expected NAME=PATH of each"),
        (["de=a.de", "b.txt"], r"b.txt is one of several inputs and has no name"),
        (["de=a.de", "gs://b/x=y"], r"gs://b/x=y is one of several"),
        (["de=a.de", "de=b.de"], r"de= is there twice"),
        (["de=a.de", "label=b.de"], r"label= is what shardmill calls a feature of its own"),
        (["de=a.de", "en="], r"en= is one of several"),
        ({"de": "a.de"}, r"de=a.de alone has no file that its lines belong to; give the other parallel files, too"),
        ("de=gs://b/a.de", r"de=gs://b/a.de alone has no file"),
    ],
)
def test_mistakes(given: object, said: str) -> None:
    with pytest.raises(OptionValueError, match=said):
        parse_inputs(given)


def test_a_file_with_such_a_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("de=a.de").write_text("x")
    with pytest.raises(OptionValueError, match=r"de=a\.de is one of several inputs and has no name"):
        parse_inputs(["de=a.de", "en=a.en"])


@pytest.mark.parametrize("given", ["de=a.de", "de=a*"])
def test_one_with_a_name_lacks_the_others(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_inputs(given) == (("", given),)  # nothing is there by the one name or the other
    Path("a.de").write_text("x")
    with pytest.raises(OptionValueError, match=r"alone has no file that its lines belong to; .* or --input a"):
        parse_inputs([given])
    Path("de=a.de").write_text("x")
    assert parse_inputs(given) == (("", given),)
