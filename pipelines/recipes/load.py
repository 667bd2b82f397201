"""Recipes from files and folders: each is read for itself, so that the mistake of one does not stop the others."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from shardmill.errors import UserError
from shardmill.pipelines.recipes import variables
from shardmill.pipelines.recipes.read import read_recipes
from shardmill.pipelines.recipes.recipe import Recipe, parse_recipe
from shardmill.pipelines.recipes.variables import Variables
from shardmill.transforms.options.yaml_nodes import Node
from shardmill.transforms.stores import storage

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Mistaken:
    """A recipe that cannot be followed, and why; `name` is that of its file."""

    name: str
    error: UserError


def load_recipes(
    paths: Sequence[str], given: Mapping[str, str], day: date, environment: Mapping[str, str]
) -> list[Recipe | Mistaken]:
    """The recipes in files and in folders of files, in their order.

    Args:
      paths: local, or in object stores.
      given: values of `${NAME}`.
      day: that the dates are of.
      environment: variables of which recipes may name some.

    Raises:
      UserError: a path cannot be read, a folder has no recipe, or a name in `given` is asked for by none.
    """
    found: list[Recipe | Mistaken] = []
    asked: set[str] = set()
    places: dict[tuple[str, str], Node] = {}
    for path in (file for folder in paths for file in _files(folder)):
        try:
            nodes = read_recipes(_bytes(path), path)
        except UserError as error:
            found.append(Mistaken(path, error))
            continue
        for node in nodes:
            asked |= variables.names_in(node)
            try:
                found.append(_recipe(node, given, day, environment, places))
            except UserError as error:
                found.append(Mistaken(path, error))
    if not any(isinstance(item, Mistaken) for item in found):
        variables.check_all_used(given, asked, ", ".join(paths))
    return found


def _recipe(
    node: Node,
    given: Mapping[str, str],
    day: date,
    environment: Mapping[str, str],
    places: dict[tuple[str, str], Node],
) -> Recipe:
    filled = Variables(given, variables.environment_names(node), environment).filled(node)
    recipe = parse_recipe(filled, day)
    output = os.path.realpath(recipe.output) if storage.is_local(recipe.output) else recipe.output.rstrip("/")
    first = places.setdefault((output, recipe.name), node)
    if first is not node:
        raise recipe.lines["name"].wrong(f"{recipe.name} in {recipe.output} is built by {first.where} already")
    return recipe


def _files(path: str) -> Iterator[str]:
    """The recipes in a folder, by their names; a file is itself."""
    is_folder = os.path.isdir(path) if storage.is_local(path) else not path.endswith(SUFFIXES)
    if not is_folder:
        yield path
        return
    try:
        names = [name for name, _ in storage.list_files(path) if "/" not in name and name.endswith(SUFFIXES)]
    except OSError as error:
        raise UserError(f"{path} cannot be listed: {error}") from None
    names = [name for name in sorted(names) if not name.startswith(".")]
    if not names:
        raise UserError(f"{path} has no recipe; expected files whose names end in {' or '.join(SUFFIXES)}")
    yield from (storage.join(path, name) for name in names)


def _bytes(path: str) -> bytes:
    try:
        return storage.read_bytes(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
