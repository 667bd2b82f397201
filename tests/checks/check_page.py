"""The page of a build, opened in Chromium by `make check NAME=page`: nothing is fetched, nothing runs, all can read it.

One browser opens all pages; each test looks at what came of them.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.many_pages import PAGES, open_pages


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """What came of each page, by its name and by `light` and `dark`."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for make, _ in PAGES.values():
            make()
        files = {name: str(folder / page) for name, (_, page) in PAGES.items()}
        results = open_pages([{"file": file} for file in files.values()])
    names = {file: name for name, file in files.items()}
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in PAGES}
    for result in results:
        found[names[result["file"]]][result["scheme"]] = result
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_fetched_and_nothing_runs(opened: dict[str, Any], name: str, scheme: str) -> None:
    result = opened[name][scheme]

    assert (result["requests"], result["messages"]) == ([], [])
    assert (result["scripts"], result["handlers"]) == (0, [])
    assert result["title"].startswith(f"{name} 1.0.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_read_it(opened: dict[str, Any], name: str, scheme: str) -> None:
    """Contrast, words beside images, order of headings, tables: as axe-core says."""
    assert opened[name][scheme]["violations"] == []


@pytest.mark.parametrize("name", PAGES)
def test_it_fits_the_window_and_prints_on_white(opened: dict[str, Any], name: str) -> None:
    light, dark = opened[name]["light"], opened[name]["dark"]

    assert light["overflow"] <= 0
    assert light["background"] == "rgb(255, 255, 255)" != dark["background"]
    assert light["printed"] == dark["printed"] == "rgb(255, 255, 255)"
    assert light["printedInks"] == dark["printedInks"]
    assert light["printedOverflow"] <= 0


def test_images_are_there(opened: dict[str, Any]) -> None:
    widths = opened["images"]["light"]["images"]

    assert len(widths) >= 12
    assert min(widths) > 0


@pytest.mark.parametrize("name", PAGES)
def test_no_share_is_more_than_all_and_nothing_is_spelt_as_python_does(opened: dict[str, Any], name: str) -> None:
    text = opened[name]["light"]["text"]

    assert all(float(share) <= 100 for share in re.findall(r"([\d.]+) %", text))
    sentences = text.partition(" Verdict ")[2]  # before these are figures with their names
    assert sentences
    odd = r"\bNone\b|\bTrue\b|\bFalse\b|\{'|\['|\b1 (?:examples|features|classes|files|pairs)\b"
    assert not re.findall(odd, sentences)


# What each page has to say beside what all do
SAID = {
    "boxes": ["3 classes, with", "objects each", "objects/bbox"],
    "masks": ["mask, a value from 0 to 255 a pixel"],
    "tars": [
        "images of 'image', as they are stored",
        "have equal content and different labels",
        "the classes of 'label' are called by their ids",
    ],
    "sequences": ["ompared were sequences without 'user'"],
    "tokens": ["tokens", "ompared were documents", "the last"],
    "near": ["look alike, 0 bits apart"],
    "one": ["examples 1 in train 1 features 2", "constant"],
    "odd": ["49 NaN in train", "infinite in train", "column 'empty' has no value in any row, and was left out"],
    "rejected": ["10 of 40 records read, 25.0 %", "truncated"],
    "night": ["not published", "1 class is gone since 1.0.0: 'b'"],
    "other_features": ["2 features gone since 1.0.0: city, kind", "age (int64 -> bytes text)"],
    "older": ["is not on record", "Nobody looked for examples of equal content"],
    "no_baseline": ["1.0.0, the version before it, cannot be read any more."],
    "damaged": ["bad", "3 of 4 shards are not what was written", "is missing", "cannot be read"],
    "audio": ["frames", "8,000", "100 %"],
}


@pytest.mark.parametrize("name", SAID)
def test_the_page_says_what_is_odd_about_the_data(opened: dict[str, Any], name: str) -> None:
    text = opened[name]["light"]["text"]

    for said in SAID[name]:
        assert said in text, said


def test_a_message_would_be_seen(tmp_path: Path) -> None:
    """What no page does, done by one."""
    text = "<!doctype html><title>x</title><img src='http://127.0.0.1:9/a.png'><script>alert(1)</script>"
    (tmp_path / "bad.html").write_text(text)
    light, _ = open_pages([{"file": str(tmp_path / "bad.html")}])

    assert light["requests"] == ["http://127.0.0.1:9/a.png"]
    assert "dialog: 1" in light["messages"]
    assert light["scripts"] == 1
    assert any(said.startswith("image-alt") for said in light["violations"])
