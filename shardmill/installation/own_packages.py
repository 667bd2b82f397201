"""The packages of the command come from beside shardmill/: `transforms` and `pipelines` are names that others use too.

A `transforms.py` in the folder where the command is started comes first where PYTHONPATH is `.`, and in worker
processes, which Python's `-m` starts, wherever it is.
"""

import os
import sys
from collections.abc import MutableMapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from shardmill.errors import UserError

NAMES = ("transforms", "pipelines")
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def put_first() -> None:
    """Let this process, and those that it starts, import NAMES from the folder that holds shardmill/, whatever else has
    their names.

    Raises:
      UserError: a foreign module of one of these names is imported already.
    """
    for name in NAMES:
        module = sys.modules.get(name)
        if module is not None and not _is_ours(name, module.__spec__):
            raise UserError(
                f"Python has imported another module named {name!r} than shardmill's before the command began, from "
                f"{_file(module)}; rename that, or start shardmill where nothing imports it"
            )
    if _OwnFinder not in sys.meta_path:
        sys.meta_path.insert(0, _OwnFinder)
    # A worker process begins its search where it is started.
    if any(foreign(name, ["", *sys.path]) for name in NAMES):
        lead_workers(os.environ)


def foreign(name: str, path: Sequence[str]) -> bool:
    """Whether a search for `name` along `path` finds first what is not ours; a folder of that name is enough."""
    found = PathFinder.find_spec(name, path)
    return found is not None and not _is_ours(name, found)


def lead_workers(environment: MutableMapping[str, str]) -> None:
    """Let Python, started with `environment`, search our folder first, and not the one it is started in."""
    rest = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([_FOLDER, rest] if rest else [_FOLDER])
    environment["PYTHONSAFEPATH"] = "1"


class _OwnFinder:
    """Finds NAMES beside shardmill/; asked before all other finders, and silent of all other names."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [_FOLDER]) if name in NAMES else None


def _is_ours(name: str, spec: ModuleSpec | None) -> bool:
    ours = os.path.join(_FOLDER, name, "__init__.py")
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(ours)


def _file(module: ModuleType) -> str:
    folders = [*getattr(module, "__path__", ())]  # all that a package without __init__.py has
    return getattr(module, "__file__", None) or (folders[0] if folders else "no file")
