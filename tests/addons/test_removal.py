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
    shutil.copytree(REPOSITORY / "src", copy)  # links become folders; compiled files stay valid
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


SCRIPT = """
import os, sys
import apache_beam  # before the forks: it takes longer than the conversions

for copy in sys.argv[1:]:
    if not os.fork():
        sys.path.insert(0, copy)
        import shardmill
        assert shardmill.__file__.startswith(copy)
        for command, file in (("csv", "a.csv"), ("text", "b.txt"), ("images", "pictures")):
            shardmill.convert(command, input=f"in/{file}", output=copy, name=command, splits="train=0.5,test=0.5")
        shardmill.info(f"{copy}/csv")
        shardmill.verify(f"{copy}/images")
        os._exit(0)
    if os.wait()[1]:
        sys.exit(copy)
"""


@pytest.mark.slow
def test_the_others_convert_without_an_add_on(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"a.csv": b"x,y\n1,a\n2,b\n", "b.txt": b"one\ntwo\n"})
    write_files(tmp_path / "in/pictures", image_tree(("ant", "bee"), 2))
    copies = [str(without_add_on(add_on.folder, tmp_path / add_on.folder)) for add_on in registry.ADD_ONS]

    done = subprocess.run([sys.executable, "-c", SCRIPT, *copies], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert all(Path(copy, "images").is_dir() for copy in copies)
