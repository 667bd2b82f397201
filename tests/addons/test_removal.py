"""An add-on can be deleted: without its folder and its place in the registry the others convert."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shardmill.addons import registry
from tests.support.command import REPOSITORY, image_tree, write_files


def without_add_on(folder: str, copy: Path) -> Path:
    """Copy the package to `copy` without an add-on; return the folder to import it from."""
    shutil.copytree(REPOSITORY / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))  # links become folders
    shutil.rmtree(copy / "shardmill/addons" / folder)
    path = copy / "shardmill/addons/registry.py"
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple):
            node.elts = [item for item in node.elts if not _is_add_on(item, folder)]
    path.write_text(ast.unparse(tree))
    return copy


def _is_add_on(node: ast.AST, folder: str) -> bool:
    match node:
        case ast.Call(func=ast.Name("AddOn"), args=[ast.Constant(value), *_]):
            return bool(value == folder)
    return False


@pytest.mark.parametrize("folder", [add_on.folder for add_on in registry.ADD_ONS])
def test_the_others_convert_without_an_add_on(folder: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"a.csv": b"x,y\n1,a\n2,b\n", "b.txt": b"one\ntwo\n"})
    write_files(tmp_path / "in/pictures", image_tree(("ant", "bee"), 2))
    source = without_add_on(folder, tmp_path / "copy")
    script = f"""
import sys
sys.path.insert(0, {str(source)!r})
import shardmill
for command, file in (("csv", "a.csv"), ("text", "b.txt"), ("images", "pictures")):
    shardmill.convert(command, input=f"in/{{file}}", output="out", name=command, splits="train=0.5,test=0.5")
    print(shardmill.info(f"out/{{command}}"), shardmill.verify(f"out/{{command}}"))
print(shardmill.__file__)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert str(source) in done.stdout
