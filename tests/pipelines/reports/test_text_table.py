"""Tables as plain text: what is in a cell is what is printed."""

import pytest
from rich.table import Table

from shardmill.pipelines.reports.summary import table_text


def test_a_table_has_neither_colours_nor_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("[b]split")
    table.add_column(":cat:")
    table.add_row("train", "1")

    assert table_text(table) == "[b]split  :cat:\ntrain     1"


def test_a_table_is_as_wide_as_it_may_be() -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("x" * 30)

    assert all(len(line) <= 20 for line in table_text(table, 20).splitlines())
