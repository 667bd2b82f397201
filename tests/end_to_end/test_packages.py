"""What is built holds all of the project, and what is installed runs where others have modules of the same names."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.command import REPOSITORY, Result, check_mistake, write_files
from tests.support.packages import PACKAGES, build_sdist, build_wheel, install, unpack

HOSTILE = b"raise SystemExit('a file of the same name was imported')"
FOREIGN: dict[str, dict[str, bytes]] = {
    "files": {"transforms.py": HOSTILE, "pipelines.py": HOSTILE},
    "packages": {"transforms/__init__.py": HOSTILE, "pipelines/__init__.py": HOSTILE},
    "folders": {"transforms/flip.txt": b"", "pipelines/train.txt": b""},
}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def source(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


def expected() -> set[str]:
    """The names of all files that Python or a type checker reads, and of the templates of pages."""
    paths = (path for package in PACKAGES for path in (REPOSITORY / package).rglob("*"))
    return {
        str(path.relative_to(REPOSITORY)) for path in paths if path.suffix in (".py", ".pyi", ".typed", ".html", ".css")
    }


def test_the_packages_are_all_there_are() -> None:
    assert {"shardmill/_native.pyi", *(f"{package}/py.typed" for package in PACKAGES)} < expected()
    assert {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} == {*PACKAGES, "tests"}


def test_the_sdist_holds_every_module_and_the_source_of_the_compiled_one(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        *expected(),
        "shardmill/_native.c",
        "shardmill/_native_json.c",
        "shardmill/_native_tar.c",
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
    } - names == set()


def test_the_wheel_of_the_sdist_holds_every_module(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert names == {*expected(), "shardmill/_native.abi3.so"}


def convert(folder: Path, *program: object, path: str) -> Result:
    """The command, converting a table with a worker process where `folder` is the current one, and `path` is
    PYTHONPATH."""
    write_files(folder, {"in/a.csv": b"a,b\n1,2\n3,4\n"})
    flags = (
        "csv",
        "--input",
        "in/a.csv",
        "--output",
        "out",
        "--name",
        "n",
        "--direct_running_mode",
        "multi_processing",
    )
    return Result(*_python(folder, path, *program, *flags))


def _python(folder: Path, path: str, *words: object) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([*map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("foreign", FOREIGN)
def test_the_launcher_imports_ours(tmp_path: Path, foreign: str) -> None:
    write_files(tmp_path, FOREIGN[foreign])
    program = (
        "from shardmill.installation.own_packages import put_first; put_first(); import pipelines, transforms;"
        " print(transforms.__file__)"
    )
    status, out, err = _python(tmp_path, f".{os.pathsep}{REPOSITORY}", sys.executable, "-c", program)

    assert (status, out) == (0, f"{REPOSITORY / 'transforms' / '__init__.py'}\n"), err


def test_names_of_others_are_not_in_the_way(tmp_path: Path) -> None:
    write_files(tmp_path, {"transforms/__init__.py": HOSTILE, "pipelines.py": HOSTILE})
    result = convert(tmp_path, sys.executable, "-m", "shardmill", path=f".{os.pathsep}{REPOSITORY}")

    assert result.status == 0, result.err
    assert (tmp_path / "out/n/1.0.0/_SUCCESS").exists()


@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_an_installation_runs_where_names_are_in_the_way(
    tmp_path: Path, wheel: Path, source: Path, editable: bool
) -> None:
    """An editable one is found last of all; workers search the folder where they are started, without a PYTHONPATH
    too."""
    programs = install(tmp_path / "installed", *(("-e", source) if editable else (wheel,)))
    folder = write_files(tmp_path / "project", FOREIGN["files"])
    result = convert(folder, programs / "shardmill", path="." if editable else "")

    assert result.status == 0, result.err
    _, where, _ = _python(folder, "", programs / "python", "-c", "import shardmill; print(shardmill.__file__)")
    assert where.startswith(str(source if editable else tmp_path))


@pytest.mark.parametrize("name", ["transforms", "pipelines"])
def test_a_module_of_the_name_that_is_imported_already_is_named(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {f"{name}.py": b""})
    program = f"import sys, {name}; from shardmill.__main__ import program; program()"
    result = convert(tmp_path, sys.executable, "-c", program, path=f".{os.pathsep}{REPOSITORY}")

    check_mistake(result, f"another module named '{name}'", str(tmp_path / f"{name}.py"))
    assert not (tmp_path / "out").exists()


def test_where_no_name_is_in_the_way_nothing_is_changed(tmp_path: Path) -> None:
    program = (
        "import os, sys; from shardmill.installation.own_packages import put_first; "
        "before = [*sys.path], {**os.environ}; "
        "put_first(); print(before == (sys.path, {**os.environ}))"
    )
    assert _python(tmp_path, str(REPOSITORY), sys.executable, "-c", program) == (0, "True\n", "")
