"""A command that works, as a recipe: what `--write_recipe` writes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from shardmill.errors import UserError
from shardmill.pipelines.kinds.kind import Kind
from shardmill.pipelines.recipes.beam import beam_entries
from shardmill.pipelines.recipes.sections import AUTO
from shardmill.pipelines.recipes.variables import escaped
from shardmill.transforms.stores.error_text import of_output, of_writing

_TOP = ("name", "output")
_ONCE = ("version", "overwrite", "set_latest")  # about one version; those of a recipe follow each other
_HEAD = """\
# Made by `shardmill {command} --write_recipe`. `shardmill rebuild` follows it, with --dry_run it says what it would do.
# Paths that are not absolute are seen from where it is run.
"""


class _PlainDumper(yaml.SafeDumper):
    """Texts without quotes wherever they are read back as they are: in a recipe a number is a text, too."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own way


_PlainDumper.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)


def recipe_text(kind: Kind, values: Mapping[str, Any], beam: Sequence[str]) -> str:
    """The recipe of a command line.

    Args:
      kind: of its command.
      values: of its flags, by field, as they were given.
      beam: the words that are Beam's.
    """
    names = {option.field: option.name for option in kind.options if not option.flag.hidden}
    given = {names[field]: _plain(value) for field, value in values.items()}
    flags = {name: value for name, value in given.items() if name not in (*_TOP, *_ONCE)}
    recipe = {**{name: given[name] for name in _TOP}, "version": AUTO, kind.command: flags}
    if beam:
        recipe["beam"] = {name: _plain(value) for name, value in beam_entries(beam).items()}
    text = yaml.dump(recipe, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=10_000)
    return _HEAD.format(command=kind.command) + text


def left_out(values: Mapping[str, Any]) -> list[str]:
    """The flags among `values` that a recipe does not have, for it says `version: auto`."""
    return [f"--{name}" for name in _ONCE if name in values]


def write_recipe(path: str, text: str) -> None:
    """Write a recipe to a file that is not there yet.

    Raises:
      UserError: it is there, or cannot be written; JobError: there is no room for it.
    """
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"--write_recipe {path}: the file is there; delete it, or give another name") from None
    except OSError as error:
        raise of_output(f"--write_recipe {path}", of_writing(error, path)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return escaped(str(value))
