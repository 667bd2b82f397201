"""Check the language of pages, docstrings, comments and messages. `python -m tests.support.prose` lists the findings.

`python -m tests.support.prose docs/tables.md` checks one file. The rules are in prose.toml: words and constructions
that have to be read twice, and the longest sentence. proselint, with proselint.json, checks pages, too.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import markdown_it
import proselint.checks
import proselint.config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src/shardmill", "transforms", "pipelines")
PAGES = ("*.md", "docs/**/*.md", "deploy/**/*.md")
RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_BANNED = [(re.compile(pattern, re.IGNORECASE), remedy) for pattern, remedy in RULES["banned"].items()]
_FIRST = re.compile(rf"(?:{'|'.join(RULES['first_words'])})\b")
PROSELINT = proselint.config.load_from(Path(__file__).with_name("proselint.json"))
CheckRegistry().register_many(proselint.checks.__register__)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Text(NamedTuple):
    """A docstring, comment, message, or paragraph of a page, and where it is."""

    kind: str
    path: str
    line: int
    text: str


def texts(path: Path) -> Iterator[Text]:
    """Yield all docstrings, comments and messages of a module, or all paragraphs of a page."""
    if path.suffix == ".md":
        yield from _paragraphs(path)
        return
    source, name = path.read_text(), str(path.relative_to(ROOT))
    tree = ast.parse(source)
    documented = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
            documented.add(node.body[0].value)  # type: ignore[attr-defined]
            yield Text("docstring", name, node.body[0].lineno, docstring)
    for node, message in _messages(tree, documented):
        if message.count(" ") > 2:
            yield Text("message", name, node.lineno, message)
    for line, comment in _comments(source):
        yield Text("comment", name, line, comment)


def _messages(node: ast.AST, documented: set[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the strings of a tree but docstrings; joined ones, as of f-strings or of `+`, as one text."""
    if node in documented:
        return
    if isinstance(node, ast.expr) and (text := _joined(node)) is not None:
        yield node, text
        if isinstance(node, ast.Constant):
            return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.JoinedStr | ast.BinOp) and _joined(node) is not None and _joined(child) is not None:
            for inner in ast.iter_child_nodes(child):  # text of `node`; look only for strings in its expressions
                yield from _messages(inner, documented)
        else:
            yield from _messages(child, documented)


def _joined(node: ast.AST) -> str | None:
    """Return the text of a string expression with `x` for each value in it; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_joined(part) or "x" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _joined(node.left), _joined(node.right)
        return None if left is None and right is None else (left or "x") + (right or "x")
    return None


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of all comments; comments on successive lines of their own are one."""
    first, last, lines = 0, 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, alone = token.start[0], not token.line[: token.start[1]].strip()
        if lines and not (alone and line == last + 1):
            yield first, "\n".join(lines)
            lines = []
        first = first if lines else line
        last = line if alone else -1
        lines.append(token.string.lstrip("#: "))
    if lines:
        yield first, "\n".join(lines)


def _paragraphs(path: Path) -> Iterator[Text]:
    """Yield the headings, paragraphs, list items and table cells of a page, with `x` for code in a sentence."""
    line = 0
    for block in markdown_it.MarkdownIt("commonmark").enable("table").parse(path.read_text()):
        line = block.map[0] + 1 if block.map else line
        if block.type == "inline":
            text = ""
            for number, part in enumerate(block.children or ()):
                code = f"x{number}"  # no two are equal: none is a word written twice
                words = {"code_inline": code, "softbreak": "\n", "hardbreak": "\n", "image": code}
                text += words.get(part.type, re.sub(r"--\w+", "x", part.content))  # flags in headings, too
            yield Text("page", str(path.relative_to(ROOT)), line, text)


def linted(paragraphs: list[Text]) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of each finding of proselint in the paragraphs of a page."""
    lines = [
        (text.line + index, line) for text in paragraphs for index, line in enumerate([*text.text.split("\n"), "¶"])
    ]
    for found in LintFile("page", "\n".join(line for _, line in lines)).lint(PROSELINT):
        yield lines[found.pos[0] - 1][0], f"{found.check_result.check_path}: {found.check_result.message}"


def findings(text: Text) -> Iterator[str]:
    """Yield what is wrong with a text."""
    spelled = re.sub(r"^ +\*{0,2}\w+:(?= )", "-", text.text, flags=re.MULTILINE)  # without names of arguments
    plain = re.sub(r"`[^`]*`|\"[^\"]*\"|'[^'\s]*'|https?://\S+", "x", spelled)
    if text.kind == "docstring" and (first := _FIRST.match(text.text)):
        yield f"begins with {first[0]!r}; say what it does (a verb) or is (a noun)"
    line = " ".join(plain.split())
    for pattern, remedy in _BANNED:
        if found := pattern.search(line):
            yield f"{found[0]!r}: {remedy}"
    if text.kind == "message":
        return
    page = text.kind == "page"  # of which each paragraph is a text
    for paragraph in [plain] if page else re.split(r"\n\s*\n|\n\s*(?:[-*|]|\w[\w*`, ]*:\s)", plain):
        for sentence in re.split(r"(?<=[.!?])\s+" if page else r"(?<=[.!?;:])\s+", paragraph):
            if (words := len(sentence.split())) > RULES["longest_sentence"]:
                yield f"a sentence of {words} words: {' '.join(sentence.split()[:6])} …"


def main(names: list[str]) -> int:
    """Print all findings in the files named, or in all modules and pages; return 1 if there are any."""
    modules = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    pages = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    paths = [Path(name).resolve() for name in names] or sorted(modules + pages)
    count = 0
    for path in paths:
        found = [(text.line, f"{text.kind} {finding}") for text in texts(path) for finding in findings(text)]
        if path.suffix == ".md":
            found += linted(list(texts(path)))
        for line, finding in sorted(found):
            print(f"{path.relative_to(ROOT)}:{line}: {finding}")
        count += len(found)
    print(f"{count} findings in {len(paths)} files")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
