"""The project as others get it: its source archive, the wheel that is built of that, and environments that it is
installed in."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

from tests.support.command import REPOSITORY

PACKAGES = ("src", "transforms", "pipelines")  # the folders; src/shardmill links to the others
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build_sdist(folder: Path) -> Path:
    """The source archive, of a copy that holds nothing that was built."""
    source = folder / "source"
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for package in PACKAGES:
        shutil.copytree(REPOSITORY / package, source / package, symlinks=True, ignore=unbuilt)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    return _build("build_sdist", source, folder)


def unpack(sdist: Path, folder: Path) -> Path:
    """The folder that a source archive holds."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel, by what is installed here: nothing is downloaded."""
    return _build("build_wheel", source, folder)


def _build(hook: str, source: Path, folder: Path) -> Path:
    done = _run(source, sys.executable, "-c", _BUILD, hook, str(folder))
    return folder / done.stdout.splitlines()[-1]


def install(folder: Path, *what: object) -> Path:
    """A new environment with `what` pip takes, and with all that is installed here but this project; its bin/."""
    venv.create(folder, symlinks=True)
    own = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    # A line of a .pth file adds a folder to the path, and does not read the .pth files in it.
    Path(own, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    flags = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--no-compile", "--quiet")
    _run(
        folder,
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(folder / "bin" / "python"),
        "install",
        *flags,
        *map(str, what),
    )
    return folder / "bin"


def _run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
