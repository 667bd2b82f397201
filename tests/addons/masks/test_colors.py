"""Tests of addons/masks/options.py: lists of colours of masks, as programs write them."""

import json
from pathlib import Path

import pytest

from shardmill.addons.masks.options import parse_mask_colors
from shardmill.errors import UserError

CLASSES = {"Background": (20, 20, 20), "Car": (220, 30, 30), "Lane Markings": (30, 220, 30), "Void": (1, 2, 3)}
LISTS = {
    "label_colors.txt": "20 20 20\t\tBackground\n220 30 30\tCar\n30 220 30\tLane Markings\n1 2 3\tVoid\n",
    "labelmap.txt": "# label:color_rgb:parts:actions\nBackground:20,20,20::\nCar:220,30,30::\n"
    "Lane Markings:30,220,30::\nVoid:1,2,3::\n",
    "class_dict.csv": "name,b,g,r\nBackground,20,20,20\nCar,30,30,220\nLane Markings,30,220,30\nVoid,3,2,1\n",
    "hex.txt": "Background #141414\nCar: #dc1e1e\nLane Markings #1edc1e\nVoid #010203\n",
    "labels.json": json.dumps([{"name": name, "color": f"#{bytes(color).hex()}"} for name, color in CLASSES.items()]),
    "texts.json": json.dumps([{"name": name, "color": ",".join(map(str, color))} for name, color in CLASSES.items()]),
    "dataset_meta.json": json.dumps(
        {"label_map": dict(enumerate(CLASSES)), "segmentation_colors": list(CLASSES.values())}
    ),
    "colors.json": json.dumps(CLASSES),
}


@pytest.mark.parametrize("name", LISTS)
def test_colours_become_classes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LISTS[name])
    assert parse_mask_colors(str(tmp_path / name)) == tuple(CLASSES.items())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 1 2 3\na 4 5 6\n", "the class a is there twice"),
        ("a 1 2 3\nb 1 2 3\n", "the colour 1,2,3 is there twice"),
        ("a 1 2 300\n", "1,2,300 is no colour"),
        ('{"0": "Void"}', "Void is no colour; expected #rrggbb, or red, green, blue from 0 to 255"),
        ("[1]", "is no list of names and colours"),
        ("a 1 2\n", "line 1 is 'a 1 2'; expected such as 'Animal:64,128,64'"),
        ("", "it is empty"),
    ],
)
def test_mistakes_in_lists_of_colours(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / f"colors.{'json' if text[:1] in ('{', '[') else 'txt'}"
    path.write_text(text)
    with pytest.raises((UserError, ValueError), match=words):
        parse_mask_colors(str(path))
