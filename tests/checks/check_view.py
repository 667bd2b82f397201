"""The page of `shardmill view` in Chromium, by `make check NAME=page`: no script of a record, none of other hosts."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import REPOSITORY
from tests.support.encoded import encode_example
from tests.support.record_files import trip, write_all_layouts, write_records

_OF_OTHERS = ("od", "tfx", "videos", "cars", "tensors", "hostile", "one", "zero", "bad.tfrecord", "lfs.tfrecord")
LAYOUTS = (*_OF_OTHERS, "wide", "sounds")
FILTER = (
    '$("name").value = "image/object/class/label"; $("how").value = "="; $("wanted").value = "dog"; start("search")'
)
SORT = '$("wanted").value = ""; $("sort").value = "="; $("order").value = "1"; $("sort").onchange()'
OPEN = 'document.querySelector(".card").click()'
# Presses of keys, as a user makes them: the next example, then the end
KEYS = [
    'document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}))',
    'document.getElementById("close").click()',
    'document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "g", bubbles: true}))',
]


def open_views(pages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what came of each page; see tests/support/browser/open_view.mjs."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "there is no chromium; `make check NAME=page` installs it"
    script = REPOSITORY / "tests/support/browser/open_view.mjs"
    done = subprocess.run(["node", str(script), chromium, json.dumps(pages)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The browser's findings on the page of each layout, and on the page of boxes after some clicks and keys."""
    folder = write_all_layouts(tmp_path_factory.mktemp("layouts"))
    wide = encode_example({f"f{number:05d}": np.array([number], np.float32) for number in range(10_000)})
    write_records(folder / "wide/w.tfrecord", [wide] * 3)
    sound = np.sin(np.arange(8_000) / 9).astype(np.float32)
    write_records(folder / "sounds/s.tfrecord", [encode_example({"audio": sound})] * 2)
    other = write_records(folder / "other/o.tfrecord", [trip(number + (number == 3)) for number in range(20)])
    views = {name: shardmill.view(folder / name) for name in LAYOUTS}
    views["two"] = shardmill.view(folder / "spark", against=other)
    pages: dict[str, dict[str, Any]] = {name: {"url": view.url, "scheme": "dark"} for name, view in views.items()}
    for name, acts in (("filter", [FILTER]), ("sort", [SORT]), ("detail", [OPEN, *KEYS[:1]]), ("keys", [OPEN, *KEYS])):
        pages[name] = {"url": views["od"].url, "acts": acts}
    pages["rejects"] = {"url": views["od"].url, "acts": ['document.getElementById("tab-rejects").click()']}
    results = open_views(list(pages.values()))
    for view in views.values():
        view.stop()
    return dict(zip(pages, results, strict=True))


EVERY = (*_OF_OTHERS, "two", "filter", "sort", "detail", "keys", "rejects")


@pytest.mark.parametrize("name", EVERY)
def test_no_script_of_a_record_runs_and_nothing_comes_from_elsewhere(opened: dict[str, Any], name: str) -> None:
    assert (opened[name]["messages"], opened[name]["elsewhere"]) == ([], [])


@pytest.mark.parametrize("name", EVERY)
def test_everybody_can_use_it(opened: dict[str, Any], name: str) -> None:
    """Contrast, names of fields and buttons, order of headings, as axe-core says."""
    assert opened[name]["violations"] == []
    assert opened[name]["overflow"] <= 0


def test_pictures_are_drawn_with_their_boxes(opened: dict[str, Any]) -> None:
    assert (opened["od"]["cards"], min(opened["od"]["images"])) == (12, 64)
    assert opened["od"]["boxes"] == 12
    assert "cat" in opened["od"]["text"]
    assert opened["sounds"]["sounds"] == 2


def test_hostile_values_are_shown_as_text(opened: dict[str, Any]) -> None:
    assert "<script>alert(1)</script>" in opened["hostile"]["text"]
    assert r"\x1b[31mred" in opened["hostile"]["text"]


def test_acts(opened: dict[str, Any]) -> None:
    assert opened["filter"]["states"][-1] == "4 examples, from number 2"
    assert opened["sort"]["cards"] == 12
    assert "Example 1, train" in opened["detail"]["text"]
    assert "Example" not in opened["keys"]["states"][-1].replace("12 examples", "")
    assert "1 differ" in opened["two"]["states"][0]
    assert "Only data sets of shardmill list rejects" in opened["rejects"]["text"]


def test_what_cannot_be_shown_is_said(opened: dict[str, Any]) -> None:
    assert opened["zero"]["states"][0] == "No example"
    assert "pointers of Git LFS" in opened["lfs.tfrecord"]["text"]
    assert "fails its checksum" in opened["bad.tfrecord"]["text"]
    assert "9,700 more features" in opened["wide"]["text"]


def test_dark_is_dark(opened: dict[str, Any]) -> None:
    assert opened["od"]["background"] != opened["filter"]["background"] == "rgb(255, 255, 255)"


def test_a_script_would_be_seen(tmp_path: Path) -> None:
    """A page that opens a dialog and asks another host: the browser reports both."""
    view = shardmill.view(write_records(tmp_path / "a", [trip(1)]))
    (found,) = open_views([{"url": view.url, "acts": ["alert(1)", 'new Image().src = "http://127.0.0.1:9/a.png"']}])
    view.stop()

    assert "dialog: 1" in found["messages"]
    assert any("Content Security Policy" in message for message in found["messages"])
