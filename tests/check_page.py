"""The page of a build, opened in Chromium: nothing is fetched, nothing runs, and everybody can read it; `make page`.

One browser opens all pages; each test looks at what came of them.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from tests.support.browser_pages import open_pages
from tests.support.command import image

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onload='alert(3)'"
RECIPE = "name: night\noutput: sets\ncsv: {input: in/night, label: kind, splits: {train: 0.8, test: 0.2}}\n"
PAGES = {
    "images": "builds/1.0.0.html",
    "table": "builds/1.0.1.html",
    "hostile": "builds/1.0.0.html",
    "classes": "builds/1.0.0.html",
    "wide": "builds/1.0.0.html",
    "broad": "builds/1.0.0.html",
    "text": "builds/1.0.0.html",
    "night": "builds/1.0.1.html",
}


def write(path: str, lines: list[str]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(lines) + "\n")


def write_inputs() -> None:
    chance = random.Random(1)
    for n in range(40):
        path = Path(f"in/images/{('cat', 'dog <b>')[n % 2]}/{n}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(n, "JPEG", (20 + 7 * n, 30 + n)))
    header = ",".join(f"column_{n}" for n in range(10)) + ",kind"
    for version, shift in (("1.0.0", 0), ("1.0.1", 3)):
        rows = [",".join(f"{chance.gauss(shift, n + 1):.3f}" for n in range(10)) for _ in range(300)]
        write(f"in/table/{version}.csv", [header, *(f"{row},{chance.choice('abc')}" for row in rows), "1,2"])
    quoted = HOSTILE.replace('"', '""')
    write("in/hostile.csv", [f'"{quoted}",kind', *(f'"{quoted}","{quoted}{n % 2}"' for n in range(20))])
    write("in/classes.csv", ["kind,x", *(f"class {n % 1000},{n}" for n in range(3000))])
    wide = [",".join(f"c{n}" for n in range(2000))]
    write("in/wide.csv", wide + [",".join(str(chance.randrange(99)) for _ in range(2000)) for _ in range(3)])
    # Too broad for the window: its table is moved sideways, by keys as well
    broad = [",".join(f"broad {n}" for n in range(6))]
    write("in/broad.csv", broad + [",".join([str(9_223_372_036_854_775_000 + n)] * 6) for n in range(40)])
    write("in/text.txt", [f"a line of text, the {n}th, {'word ' * (n % 9)}" for n in range(100)])
    write("night.yaml", RECIPE.splitlines())
    write("in/night/a.csv", ["kind,x", *(f"{'ab'[n % 2]},{n % 7}" for n in range(200))])


def build() -> None:
    output = ["--output", "sets", "--splits", "train=0.8,test=0.2"]
    assert main(["images", "--input", "in/images", "--name", "images", *output]) == 0
    for version in ("1.0.0", "1.0.1"):
        flags = ["--name", "table", "--label", "kind", "--version", version, "--max_reject_fraction", "0.1"]
        assert main(["csv", "--input", f"in/table/{version}.csv", *flags, *output]) == 0
    for name in ("hostile", "classes"):
        assert main(["csv", "--input", f"in/{name}.csv", "--name", name, "--label", "kind", *output]) == 0
    assert main(["csv", "--input", "in/wide.csv", "--name", "wide", "--output", "sets"]) == 0
    assert main(["csv", "--input", "in/broad.csv", "--name", "broad", *output]) == 0
    assert main(["text", "--input", "in/text.txt", "--name", "text", "--record", "line", *output]) == 0
    assert main(["rebuild", "night.yaml"]) == 0
    write("in/night/a.csv", ["kind,x", *(f"a,{n % 7}" for n in range(60))])
    assert main(["rebuild", "night.yaml"]) == 3


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """What came of each page, by its name and by `light` and `dark`."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs()
        build()
        files = {name: str(folder / "sets" / name / page) for name, page in PAGES.items()}
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


def test_images_are_there(opened: dict[str, Any]) -> None:
    widths = opened["images"]["light"]["images"]

    assert len(widths) >= 12
    assert min(widths) > 0


def test_a_message_would_be_seen(tmp_path: Path) -> None:
    """What no page does, done by one."""
    text = "<!doctype html><title>x</title><img src='http://127.0.0.1:9/a.png'><script>alert(1)</script>"
    (tmp_path / "bad.html").write_text(text)
    light, _ = open_pages([{"file": str(tmp_path / "bad.html")}])

    assert light["requests"] == ["http://127.0.0.1:9/a.png"]
    assert "dialog: 1" in light["messages"]
    assert light["scripts"] == 1
    assert any(said.startswith("image-alt") for said in light["violations"])
