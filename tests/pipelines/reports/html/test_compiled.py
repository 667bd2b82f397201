"""Templates are compiled once, kept beside the modules, and never of another text."""

import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from shardmill.pipelines.reports import page
from shardmill.pipelines.reports import page as compiled
from shardmill.pipelines.reports.page import CompiledTemplates


class Counting(Environment):
    compiled = 0

    def _generate(self, *args: object, **named: object) -> str:
        Counting.compiled += 1
        return super()._generate(*args, **named)  # type: ignore[arg-type]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = Path(cache_from_source(compiled.__file__)).parent
    folder.mkdir(parents=True)
    Counting.compiled = 0
    return folder


def rendered(text: str) -> str:
    environment = Counting(loader=DictLoader({"page": text}), bytecode_cache=CompiledTemplates())
    return environment.get_template("page").render(number=3)


def test_once_for_each_text(kept: Path) -> None:
    assert [rendered("{{ number }}"), rendered("{{ number }}"), rendered("{{ number + 1 }}")] == ["3", "3", "4"]
    assert Counting.compiled == 2
    assert len(list(kept.iterdir())) == 1


def test_without_a_folder_that_can_be_written_to(kept: Path) -> None:
    kept.rmdir()
    kept.write_bytes(b"")  # as within an archive

    assert [rendered("{{ number }}"), rendered("{{ number }}")] == ["3", "3"]
    assert Counting.compiled == 2


def test_nothing_is_kept_where_python_is_told_to_keep_nothing(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    assert rendered("{{ number }}") == "3"
    assert not list(kept.iterdir())


def test_the_page_is_kept(kept: Path) -> None:
    page._environment.cache_clear()

    page._environment(60).get_template("page")

    assert list(kept.iterdir())


def test_a_process_compiles_the_page_once() -> None:
    assert page._environment(60).get_template("page") is page._environment(60).get_template("page")
