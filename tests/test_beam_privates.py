"""What of Beam has no public way is used in one module each; a new use fails here."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each is tested where it is used: a Beam that changes it fails that test. `_add_argparse_args` is how options are
# declared.
USED = {
    "transforms/writing/beam_sink.py": {"_sink"},
    "pipelines/flags/beam.py": {"_BeamArgumentParser", "_add_argparse_args"},
}
OTHERS = {"_StoreAction", "_actions", "_exit", "_replace"}  # of argparse, os, and named tuples


def own_names(trees: list[ast.Module]) -> set[str]:
    """What this project itself calls with an underscore."""
    names: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            names |= {node.attr} if node.value.id in ("self", "cls") else set()
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def privates(tree: ast.Module) -> Iterator[str]:
    """Names with an underscore that are imported from Beam, or asked of anything but `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "apache_beam":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and not (
            isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        ):
            yield node.attr


def test_private_names_of_beam() -> None:
    paths = [path for package in ("transforms", "pipelines") for path in sorted((ROOT / package).rglob("*.py"))]
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}
    own = own_names(list(trees.values())) - {name for names in USED.values() for name in names}
    hidden = {
        path: {name for name in privates(tree) if name.startswith("_") and not name.startswith("__")}
        for path, tree in trees.items()
    }

    assert {path: names - own - OTHERS for path, names in hidden.items() if names - own - OTHERS} == USED


def test_every_place_names_the_beam_that_is_tested() -> None:
    """Workers' image, Prism and constraints.txt are of one release, and pyproject.toml takes its minor version
    alone."""
    (release,) = re.findall(r"^apache-beam==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    major, minor, _ = map(int, release.split("."))
    pins = re.findall(r'"apache-beam(?:\[\w+\])?(>=.*?)"', (ROOT / "pyproject.toml").read_text())

    assert set(pins) == {f">={major}.{minor},<{major}.{minor + 1}"}
    assert f"ARG BEAM_VERSION={release}\n" in (ROOT / "Dockerfile").read_text()
    assert f'prism@v{release}"' in (ROOT / "tests/end_to_end/test_prism.py").read_text()
