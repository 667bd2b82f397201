"""Messages on terminals: notices are whole at any width, and labels have colours."""

import ast
import io
import re
from collections.abc import Iterator

import pytest

from shardmill.text import fit_terminal
from tests.test_architecture import PATHS, parsed

_FLAG = re.compile(r"--\w+(?:[= ](?:'[^']*'|[^\s;,`]+))?")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


NO_MESSAGES = ("flag", "add_argument", "compile", "Command")


def texts(node: ast.AST, left_out: tuple[str, ...] = NO_MESSAGES) -> Iterator[str]:
    """The texts in a module, with `x` for each value that is put in; no docstrings, and no help of flags."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(left_out):
        return
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from texts(child, left_out)


@pytest.fixture(scope="module")
def catalogue() -> list[str]:
    """The texts of the package that name flags."""
    return sorted(
        {
            text
            for name in PATHS
            for text in texts(parsed(name))
            if re.search(r"\s--\w|^--\w+ ", text) and " " in text.strip() and "\n" not in text
        }
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_flag_of_a_notice_is_cut(
    terminal: Terminal, catalogue: list[str], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    assert len(catalogue) > 300
    for text in catalogue:
        whole = f"NOTE: {' '.join(text.split())}"
        lines = fit_terminal(whole, terminal).split("\n")

        assert [flag for flag in _FLAG.findall(whole) if not any(flag in line for line in lines)] == []
        assert re.sub(r"\W", "", "".join(lines)) == re.sub(r"\W", "", whole)
        longest = max(map(len, (*_FLAG.findall(whole), *re.findall(r"`[^`]*`\S*", whole), "")))
        assert max(map(len, lines)) <= max(columns, longest + 40)


def test_a_clause_with_a_flag_has_lines_of_its_own(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "")
    notice = "NOTE: 3 texts in 'city'; such as 'NA'; --missing '' reads them; `shardmill x --a; b` too; see the page"

    assert fit_terminal(f"1.0.0\n{notice}\nRead it:", terminal).split("\n") == [
        "1.0.0",
        "\x1b[1;33mNOTE:\x1b[0m 3 texts in 'city'; such as 'NA'",
        "  --missing '' reads them",
        "  `shardmill x --a; b` too",
        "  see the page",
        "Read it:",
    ]


@pytest.mark.parametrize(
    ("variables", "stream", "label"),
    [
        ({}, Terminal(), "\x1b[1;31mshardmill: error:\x1b[0m no"),
        ({"NO_COLOR": "1"}, Terminal(), "shardmill: error: no"),
        ({"TERM": "dumb"}, Terminal(), "shardmill: error: no"),
        ({"FORCE_COLOR": "1"}, io.StringIO(), "shardmill: error: no"),
    ],
)
def test_errors_are_red_on_terminals_alone(
    variables: dict[str, str], stream: io.StringIO, label: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert fit_terminal("shardmill: error: no", stream) == label
