"""Options that are declared once: values are checked wherever they come from, and what shapes the output is known."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.transforms.options.declare import Options, flag, options_of


def parse_pair(value: Any) -> tuple[str, str]:
    if isinstance(value, tuple):
        return value
    name, equals, rest = str(value).partition("=")
    if not equals:
        raise OptionValueError(f"{value!r} is not name=value")
    return name, rest


@dataclass(frozen=True, kw_only=True)
class Shape(Options):
    title: ClassVar[str] = "shape"

    corners: int = flag(3, "how many", check=lambda corners: None if corners > 2 else "expected more than 2")
    colour: str | None = flag(None, "of all", choices=("red", "blue"))
    round: bool = flag(False, "or not")


@dataclass(frozen=True, kw_only=True)
class Drawing(Shape):
    title: ClassVar[str] = "drawing"

    where: str = flag(help="a path", affects_output=False)
    scale: float = flag(1.0, "of it", group="size")
    pair: tuple[str, str] | None = flag(None, "two", parse=parse_pair, name="two", to_json=list)


def test_options_are_those_of_all_bases() -> None:
    found = {option.field: (option.name, option.group, option.type) for option in options_of(Drawing)}

    assert found == {
        "corners": ("corners", "shape", int),
        "colour": ("colour", "shape", str),
        "round": ("round", "shape", bool),
        "where": ("where", "drawing", str),
        "scale": ("scale", "size", float),
        "pair": ("two", "drawing", str),
    }


@pytest.mark.parametrize(
    "values", [{"corners": "4", "scale": "2", "pair": "a=b"}, {"corners": 4, "scale": 2, "pair": ("a", "b")}]
)
def test_texts_and_values_mean_the_same(values: dict[str, Any]) -> None:
    assert Drawing(where="x", **values) == Drawing(where="x", corners=4, scale=2.0, pair=("a", "b"))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"corners": 2}, "^--corners 2: expected more than 2$"),
        ({"corners": "x"}, "^--corners: 'x' is not a whole number$"),
        ({"corners": True}, "^--corners: True is not a whole number$"),
        ({"corners": 3.5}, "^--corners: 3.5 is not a whole number$"),
        ({"colour": "green"}, "^--colour green: expected one of red, blue$"),
        ({"round": "yes"}, "^--round: 'yes' is not true or false$"),
        ({"scale": "big"}, "^--scale: 'big' is not a number$"),
        ({"where": 3}, "^--where: 3 is not a text$"),
        ({"pair": "ab"}, "^--two: 'ab' is not name=value$"),
    ],
)
def test_mistakes_name_the_flag_wherever_the_value_comes_from(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Drawing(**{"where": "x", **values})


def test_a_part_is_handed_on_whole() -> None:
    assert Drawing(where="x", corners=5, colour="red").subset(Shape) == Shape(corners=5, colour="red")


def test_what_shapes_the_output_is_told() -> None:
    recorded = Drawing(where="x", pair=("a", "b")).to_json()
    assert recorded == {"corners": 3, "colour": None, "round": False, "scale": 1.0, "pair": ["a", "b"]}
