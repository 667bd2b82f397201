"""The pages of docs/reference/, made from the code: `python -m tests.support.reference` writes them.

tests/pages/test_reference.py fails if a page is not what this module writes.
"""

import argparse
import ast
import inspect
import io
import json
import re
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import MISSING
from importlib import import_module
from pathlib import Path
from typing import Any

import shardmill
from docs import build_site
from shardmill.addons.nightly import recipe
from shardmill.errors import EXIT_STATUSES
from shardmill.pipelines import cli
from shardmill.pipelines.config.flags import Parser
from shardmill.pipelines.jobs.registry import KINDS, entries
from shardmill.quality.limits import SCHEMA_CHECKS, Limits
from shardmill.transforms.options.declare import Option, options_of
from shardmill.transforms.options.job_options import LOWER_BOUND, CheckOptions
from tests.support.command import REPOSITORY
from tests.support.pages import heading_anchor
from tests.support.reference_examples import COMMENTS, FILES, OTHER_FILES, OUTPUTS, Commented

FOLDER = REPOSITORY / "docs" / "reference"
MADE = "\n<!-- Made by `python -m tests.support.reference`. -->\n"
_STATUS = re.compile(r"(?:^|; )(\d+) ")


def text(help: str, flags: Sequence[str] = ()) -> str:
    """Return help as Markdown; those of `flags` that it names are links to their headings."""
    escaped = re.sub(r"([*_<\[\]|])", r"\\\1", help).replace("\\<", "&lt;")
    escaped = re.sub(r"`[^`]*`", lambda code: code[0].replace("\\", ""), escaped)

    def link(found: re.Match[str]) -> str:
        name = found[0].replace("\\", "")
        return f"[`{name}`](#{heading_anchor(name)})" if name in flags else f"`{name}`"

    return re.sub(r"(?<![\w`])--[a-z](?:\w|-|\\_)*", link, escaped)


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the page of each command."""
    for name, parser in cli.parsers().items():
        yield f"{name}.md", "\n".join(_command_lines(parser)) + "\n"


def _command_lines(parser: Parser) -> Iterator[str]:
    flags = [flag for action in parser._actions for flag in action.option_strings]
    yield f"# {parser.prog}\n\n{text(parser.description or '')}"
    yield f"\n```sh\n{parser.format_usage().strip()}\n```"
    if parser._examples:
        examples = "\n".join(f"{parser.prog} {example}" for example in parser._examples)
        yield f"\n```sh\n{examples}\n```"
    # The group of argparse's own flags, first in the parser, has only --help-all if a command has a short help
    groups = sorted(parser._action_groups, key=lambda group: bool(parser._short_help) and group.title == "options")
    for group in groups:
        actions = [action for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
        if actions:
            yield f"\n## {(group.title or '').capitalize()}"
        for action in actions:
            yield from _flag_lines(parser, action, flags)
    about, _, statuses = (parser.epilog or "").partition("Exit status: ")
    if about.strip():
        yield f"\n## Notes\n\n{text(about.strip(), flags)}"
    if statuses:
        found = _STATUS.split(statuses)
        yield "\n## Exit statuses\n\n| status | meaning |\n|---|---|"
        for status, meaning in zip(found[1::2], found[2::2], strict=True):
            sentence, _, rest = meaning.partition(". ")
            yield f"| {status} | {text(sentence.rstrip('.'), flags)} |"
        yield f"{chr(10)}{text(rest, flags)}\n" if rest else ""
        yield "All meanings are in [Exit statuses](exit-statuses.md)."


def _flag_lines(parser: Parser, action: argparse.Action, flags: Sequence[str]) -> Iterator[str]:
    names = action.option_strings or [str(action.metavar or action.dest)]
    yield f"\n### {names[0]}\n"
    takes_value = action.option_strings and action.nargs != 0
    value = f"`{names[0]} {action.metavar or action.dest.upper()}`" if takes_value else ""
    others = ", ".join(f"`{name}`" for name in names[1:])
    facts = [value, "required" if action.required and action.option_strings else "", others and f"also {others}"]
    if shown := ", ".join(filter(None, facts)):
        yield f"{shown}\n"
    expanded = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    yield f"{text(expanded, flags)}."


def command_index() -> str:
    """Return the page that lists all commands."""
    lines = [f"| [`shardmill {name}`]({name}.md) | {text(entry.summary)} |" for name, entry in entries().items()]
    return "\n".join(
        [
            "# Commands\n\n`shardmill COMMAND --help` shows the most used flags of a command. `--help-all`",
            "shows all. Each page lists all flags; each flag has a link of its own.\n",
            "| command | what it does |\n|---|---|",
            *lines,
            "\nOther pages: [keys of a recipe](recipe.md), [checks](checks.md), [exit statuses](exit-statuses.md),",
            "[files of a data set](files.md), [examples of JSON output](json.md).",
            "",
        ]
    )


def status_page() -> str:
    """Return the page of exit statuses."""
    rows = [f"| {status} | {text(meaning)} |" for status, meaning in EXIT_STATUSES.items()]
    own = [
        f"| [`{name}`]({name}.md#exit-statuses) | {text(parser.epilog.partition('Exit status: ')[2])} |"
        for name, parser in cli.parsers().items()
        if name not in (*KINDS, "rebuild") and parser.epilog and "Exit status: " in parser.epilog
    ]
    return "\n".join(
        [
            "# Exit statuses\n\n| status | meaning |\n|---|---|",
            *rows,
            "\n`shardmill rebuild` may end with another status if nothing had to be built:",
            "[`--unchanged_status`](rebuild.md#--unchanged_status).\n\n## By command\n",
            "`rebuild` uses all of them, the converting commands all but 3 and 5. The others:\n",
            "| command | statuses |\n|---|---|",
            *own,
            "",
        ]
    )


def _value(option: Option) -> str:
    """Return the expected values and the default of a key."""
    words = " or ".join(f"`{choice}`" for choice in option.flag.choices if choice)
    default = option.flag.default_words or (
        ""
        if option.default in (None, MISSING, ())
        else f"{option.default:g}"
        if isinstance(option.default, float)
        else str(option.default)
    )
    return " ".join(filter(None, [words and f"{words}.", default and f"Default: `{default}`."]))


def recipe_page() -> str:
    """Return the page of the keys of a recipe."""
    lines = [
        "# Keys of a recipe\n\n[Rebuild a data set every night](../nightly.md) shows a recipe. A recipe has",
        "the keys `name` and `output`, one command, and any of the others.\n\n## Data set",
    ]
    for key, meaning in recipe._TOP_KEYS.items():
        lines.append(f"\n### {key}\n\nRequired: {meaning}.")
    names = ", ".join(f"[`{name}`]({name}.md)" for name in KINDS)
    lines.append(
        f"\n### command\n\nRequired: one of {names}. Below it are its flags, without dashes. `name`, `output` and"
        " `version` are at the top of the recipe instead.\n\n## Build"
    )
    for option in options_of(recipe.BuildOptions):
        lines.append(f"\n### {option.name}\n\n{text(option.flag.help)}. {_value(option)}".rstrip())
    for key, meaning in recipe._OTHER_KEYS.items():
        lines.append(f"\n### {key}\n\n{text(meaning)}.")
    for title, section in recipe._SECTIONS.items():
        lines.append(f"\n## {title}")
        if section is CheckOptions:
            lines.append("\nEach check is a key of this section: [Checks](checks.md) lists them. The other keys are:")
        for option in options_of(section):
            if not isinstance(option.default, Limits):
                lines.append(f"\n### {title}: {option.name}\n\n{text(option.flag.help)}. {_value(option)}".rstrip())
    return "\n".join([*lines, ""])


def check_page() -> str:
    """Return the page of checks and their thresholds."""
    lines = [
        "# Checks\n\nA check is a key of the section `checks` of a [recipe](recipe.md#checks).",
        "[Rebuild a data set every night](../nightly.md#checks) says how they work. A value is `off`, `warn`, `error`,",
        "a number, or `{warn: NUMBER, error: NUMBER}`. A value equal to a threshold passes.\n",
        "| check | warns | fails |\n|---|---|---|",
    ]
    options = [option for option in options_of(CheckOptions) if isinstance(option.default, Limits)]
    bounds = {option.name: "below" if option.group == LOWER_BOUND else "above" for option in options}
    for option in options:
        cells = [
            "" if limit is None else f"{bounds[option.name]} {limit:g}"
            for limit in (option.default.warn, option.default.error)
        ]
        lines.append(f"| [`{option.name}`](#{option.name}) | {' | '.join(cells)} |")
    for option in options:
        lines.append(f"\n## {option.name}\n\n{text(option.flag.help)}.")
        facts = [
            f"{verb} {bounds[option.name]} {limit:g}"
            for verb, limit in (("warns", option.default.warn), ("fails", option.default.error))
            if limit is not None
        ]
        lines.append(f"\nDefault: {', '.join(facts) or 'off'}.")
    lines.append(
        "\n## Checks of a schema\n\nThey compare with the constraints of the `schema.pbtxt` that"
        " [`checks: schema`](recipe.md#checks-schema) or the flag `--schema` names. A violation fails."
    )
    for name, meaning in SCHEMA_CHECKS.items():
        lines.append(f"\n### {name}\n\n{text(meaning)}.")
    return "\n".join([*lines, ""])


def docstring(name: str) -> str:
    """Return the docstring of a public name; a module of another framework is not imported, but read."""
    module, _, member = name.rpartition(".")
    if module != "torch":
        return inspect.getdoc(getattr(import_module(f"shardmill.{module}".rstrip(".")), member)) or ""
    tree = ast.parse(Path(shardmill.__file__).with_name(f"{module}.py").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == member)
    return ast.get_docstring(found) or ""


def api_page() -> str:
    """Return the list of the Python API; the site has a page with all docstrings in its place."""
    lines = [
        "# Python API\n\nAll names are those of the package `shardmill`. `help(shardmill.convert)` describes",
        "a function in full. [Use shardmill from Python](../python.md) shows how to use them.",
    ]
    for heading, names in build_site.api_names().items():
        lines.append(f"\n## {heading}\n\n| name | meaning |\n|---|---|")
        for name in names:
            summary = " ".join(docstring(name).partition("\n\n")[0].split())
            lines.append(f"| `{name}` | {text(summary)} |")
    return "\n".join([*lines, ""])


def make_examples(folder: Path) -> dict[str, str]:
    """Build a small data set twice in `folder`, where the second version fails; return the outputs by command."""
    cities = ("Rome", "Oslo", "Lima")
    rows = [f"{n},{cities[n % 3]},{n * 1.5 if n % 7 else ''}" for n in range(1, 41)]
    rows.insert(9, "100,Rome,12,x")
    (folder / "sales.csv").write_text("\n".join(["id,city,price", *rows, ""]))
    (folder / "sales.yaml").write_text(
        "name: sales\noutput: datasets\ncsv:\n  input: sales.csv\n  label: city\n  splits: {train: 0.8, test: 0.2}\n"
    )
    outputs = {}
    with chdir(folder):
        outputs["shardmill rebuild sales.yaml --json"] = _run("rebuild", "sales.yaml", "--json")
        (folder / "sales.csv").write_text("\n".join(["id,city,price", *(row for row in rows if "Lima" not in row), ""]))
        _run("rebuild", "sales.yaml", status=3)
        _run("tag", "datasets/sales", "1.0.0", "paper")
        for words in OUTPUTS:
            if words not in outputs:
                outputs[words] = _run(*words.split()[1:])
    return outputs


def _run(*words: str, status: int = 0) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        found = cli.main(words)
    assert found == status, (words, err.getvalue())
    return out.getvalue()


def _stable(content: str) -> str:
    """Return output with the same times, digests of the input and versions of shardmill on each machine."""
    content = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-11-20T03:00:00Z", content)
    content = re.sub(r"until \d{4}-\d\d-\d\d", "until 2026-11-23", content)
    content = re.sub(r'("seconds": )[\d.]+', r"\g<1>4.3", content)
    content = re.sub(r'("(?:code|data)_version": )"\w+"', r'\g<1>"50366fd8e320ac91634f73a3531387a4"', content)
    content = re.sub(r'("job": )"\w+"', r'\g<1>"0d26b5badcbf5131460a0ada7d2f4e6e"', content)
    return re.sub(r'("shardmill": )"[^"]+"', r'\g<1>"1.0.0"', content)


def commented(value: Any, shown: Commented, seen: set[str], path: str = "", indent: str = "") -> Iterator[str]:
    """Yield the lines of a JSON value with comments before the keys that have one, and `…` for what is left out."""
    if not isinstance(value, dict | list) or not value or (len(json.dumps(value)) < 60 and path not in shown.open):
        yield json.dumps(value, ensure_ascii=False)
        return
    is_object = isinstance(value, dict)
    items = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
    most = shown.most.get(path, 2 if not is_object else len(items))
    yield "{" if is_object else "["
    for number, (key, item) in enumerate(items[:most]):
        below = f"{path}.{key}".lstrip(".") if is_object else path + "[]"
        if below not in seen and (comment := shown.comments.get(below)):
            yield f"{indent}  // {comment}"
        seen.add(below)
        lines = list(commented(item, shown, seen, below, indent + "  "))
        lines[0] = f"{indent}  " + (f"{json.dumps(key)}: " if is_object else "") + lines[0]
        lines[-1] += "" if number == len(items) - 1 else ","
        yield from lines
    if len(items) > most:
        yield f"{indent}  …"
    yield indent + ("}" if is_object else "]")


def _json_block(content: str, shown: Commented) -> str:
    lines = commented(json.loads(_stable(content)), shown, set())
    return "```js\n" + "\n".join(lines) + "\n```"


def file_page(folder: Path) -> str:
    """Return the page of the files of the data set that `make_examples` wrote to `folder`."""
    lines = [
        "# Files of a data set\n\n[Look into a data set](../dataset.md#files) explains how the",
        "files belong together. These examples are from a small table of sales, built twice by a recipe. The second",
        "version failed its checks. `…` marks lines that are left out.\n\n```text",
    ]
    root = folder / "datasets"
    paths = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    lines += [
        f"datasets/{path}"
        for path in paths
        if not (root / "sales/1.0.0" / path.name).exists() or "failed" not in path.parts
    ]
    lines.append("datasets/sales/failed/1.0.1/…")
    lines.append("```")
    for name, (pattern, meaning, language, most) in FILES.items():
        (path,) = root.glob(pattern)
        lines.append(f"\n## {name}\n\n`{pattern}`\n\n{meaning}")
        if language == "json":
            lines.append("\n" + _json_block(path.read_text(), COMMENTS[name]))
        elif language:
            found = _stable(path.read_text()).splitlines()
            shown = found[most:] if most < 0 else found[:most]
            rest = ["…"] if len(found) > len(shown) else []
            lines.append("\n".join([f"\n```{language}", *(rest + shown if most < 0 else shown + rest), "```"]))
    lines.append("\n## Other files\n\n| file | meaning |\n|---|---|")
    lines += [f"| `{name}` | {meaning} |" for name, meaning in OTHER_FILES.items()]
    return "\n".join([*lines, ""])


def json_page(outputs: Mapping[str, str]) -> str:
    """Return the page of examples of JSON output."""
    lines = [
        "# Examples of JSON output\n\n[Read the JSON output](../json.md) explains the keys. These are outputs about",
        "the data set of [Files of a data set](files.md), with line breaks; the commands print one line.",
        "`…` marks what is left out here.",
    ]
    for words, (title, shown) in OUTPUTS.items():
        lines.append(f"\n## {title}\n\n```sh\n{words}\n```\n\n{_json_block(outputs[words], shown)}")
    return "\n".join([*lines, ""])


def declared_pages() -> dict[str, str]:
    """Return the pages that are made from declarations, by file name."""
    pages = dict(command_pages())
    pages |= {"commands.md": command_index(), "recipe.md": recipe_page(), "checks.md": check_page()}
    pages |= {"exit-statuses.md": status_page(), "api.md": api_page()}
    return {name: _wrap(page) + MADE for name, page in pages.items()}


def _wrap(page: str) -> str:
    """Wrap paragraphs that are one long line; headings, lists, tables and fenced blocks stay as they are."""
    lines, is_code = list[str](), False
    for line in page.split("\n"):
        is_code ^= line.startswith("```")
        is_prose = not is_code and line[:1] not in tuple("#|-`")
        wrapped = textwrap.wrap(line, 120, break_long_words=False, break_on_hyphens=False) if is_prose else [line]
        lines += wrapped or [""]
    return "\n".join(lines)


def example_pages() -> dict[str, str]:
    """Return the pages that are made from a real data set, by file name."""
    with tempfile.TemporaryDirectory() as name:
        outputs = make_examples(Path(name))
        return {"files.md": file_page(Path(name)) + MADE, "json.md": json_page(outputs) + MADE}


def main() -> None:
    """Write all pages, and delete those that are no longer made."""
    FOLDER.mkdir(exist_ok=True)
    pages = declared_pages() | example_pages()
    for page in FOLDER.glob("*.md"):
        if page.name not in pages:
            page.unlink()
    for name, content in pages.items():
        (FOLDER / name).write_text(content)


if __name__ == "__main__":
    main()
