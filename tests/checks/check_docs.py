"""The documentation site, opened in Chromium from disk: `make docs` builds it and runs these tests."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.support.command import REPOSITORY

SITE = REPOSITORY / "build" / "site"
SCRIPT = REPOSITORY / "tests" / "support" / "browser" / "open_site.mjs"


@pytest.fixture(scope="module")
def site() -> dict[str, Any]:
    """Open each page in light and dark at two widths, and search; return the browser's findings."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "there is no chromium; `make docs` installs it"
    done = subprocess.run(["node", SCRIPT, chromium, SITE, "delimiter"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_page_is_opened(site: dict[str, Any]) -> None:
    docs = REPOSITORY / "docs"
    sources = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    pages = {str(path.relative_to(docs).with_suffix("")) for path in sources} | {"index"}
    assert {page["file"].removesuffix(".html") for page in site["pages"]} == {*pages, "404"}
    assert len(site["pages"]) == 4 * (len(pages) + 1)


def test_no_page_is_wider_than_the_window(site: dict[str, Any]) -> None:
    assert [page for page in site["pages"] if page["overflow"] > 0] == []


def test_pages_need_no_network_and_have_no_errors(site: dict[str, Any]) -> None:
    assert [page for page in site["pages"] if page["remote"] or page["errors"] or page["broken"]] == []


def test_pages_are_light_and_dark(site: dict[str, Any]) -> None:
    grounds = {
        scheme: {
            page["background"] for page in site["pages"] if page["scheme"] == scheme and page["file"] != "404.html"
        }
        for scheme in ("light", "dark")
    }
    assert grounds["light"] == {"rgb(255, 255, 255)"}
    assert len(grounds["dark"]) == 1
    assert grounds["dark"] != grounds["light"]


def test_search_finds_a_flag(site: dict[str, Any]) -> None:
    assert any("tables.html" in link for link in site["results"])
    assert any("reference/csv.html" in link for link in site["results"])
