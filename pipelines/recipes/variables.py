"""`${NAME}` in a recipe: what --set says it is, or an environment variable that the recipe names."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardmill.errors import UserError
from shardmill.transforms.options.yaml_nodes import Node

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"(\$?)\$\{([^}]*)\}")  # `$${` is a `${` that stands for itself


def parse_set(pairs: Iterable[str]) -> dict[str, str]:
    """Names and values of `--set NAME=value`.

    Raises:
      UserError: one is not written so, or a name is given twice.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or NAME.fullmatch(name) is None:
            raise UserError(f"--set {pair}: expected NAME=value, such as BUCKET=gs://photos")
        if name in values:
            raise UserError(f"--set {name}=… is given twice; give it once")
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Variables:
    """What stands for `${NAME}`.

    Attributes:
      given: by --set.
      named: environment variables that the recipe may read.
      environment: all that there are.
    """

    given: Mapping[str, str]
    named: tuple[str, ...] = ()
    environment: "Mapping[str, str] | None" = None

    def filled(self, recipe: Node) -> Node:
        """`recipe` with the values in place of the names.

        Raises:
          UserError: a name has no value; the sentence says where it stands and what to do.
        """
        return recipe.replaced(self._fill)

    def _fill(self, node: Node) -> str:
        def value(match: re.Match[str]) -> str:
            return match[0][1:] if match[1] else self._value(match[2], node)

        return _REFERENCE.sub(value, node.text())

    def _value(self, name: str, node: Node) -> str:
        if NAME.fullmatch(name) is None:
            raise node.wrong(f"${{{name}}}: expected a name of letters, digits and '_'; $${{ stands for ${{ itself")
        if name in self.given:
            return self.given[name]
        if name in self.named:
            found = (self.environment or {}).get(name)
            if found is None:
                raise node.wrong(
                    f"${{{name}}}: there is no environment variable {name}; set it, or give --set {name}=…"
                )
            return found
        near = difflib.get_close_matches(name, [*self.given, *self.named], 1)
        meant = f"; did you mean ${{{near[0]}}}?" if near else ""
        raise node.wrong(f"${{{name}}} has no value: give --set {name}=…, or name it under environment{meant}")


def environment_names(recipe: Node) -> tuple[str, ...]:
    """The environment variables that a recipe says that it reads, under `environment`.

    Raises:
      UserError: that is no list of names.
    """
    node = recipe.mapping().get("environment")
    items = () if node is None else node.value if isinstance(node.value, tuple) else (node,)
    for item in items:
        if NAME.fullmatch(item.text()) is None:
            raise item.wrong(
                f"environment: {item.text()!r} is not the name of a variable; expected a list such as [BUCKET, REGION]"
            )
    return tuple(item.text() for item in items)


def names_in(recipe: Node) -> set[str]:
    """The names that `recipe` asks values of."""
    found = (_REFERENCE.finditer(node.text()) for node in recipe.texts())
    return {match[2] for matches in found for match in matches if not match[1]}


def check_all_used(given: Mapping[str, str], asked: set[str], files: str) -> None:
    """Check that each name of --set stands somewhere in the recipes; raises UserError."""
    for name in given:
        if name not in asked:
            near = difflib.get_close_matches(name, sorted(asked), 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise UserError(f"--set {name}=…: there is no ${{{name}}} in {files}{meant}")


def escaped(text: str) -> str:
    """`text` as a recipe must have it to mean itself."""
    return text.replace("${", "$${")
