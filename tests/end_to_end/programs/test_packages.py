"""What is built holds all of the project, and what is installed runs where others have modules of the same names."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.command import REPOSITORY, Result, write_files

pytestmark = pytest.mark.slow

HOSTILE = b"raise SystemExit('a file of the same name was imported')"
FOREIGN = {"transforms/__init__.py": HOSTILE, "pipelines.py": HOSTILE}  # names that a user's project may have


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def source(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def linked(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an editable installation."""
    return install(tmp_path_factory.mktemp("linked"), "-e", source)


def expected() -> set[str]:
    """The installed names of all files that Python or a type checker reads, of templates of pages and of samples."""
    folders = {"src/shardmill": "shardmill", "transforms": "shardmill/transforms", "pipelines": "shardmill/pipelines"}
    paths = (
        (name, path, path.relative_to(REPOSITORY / name)) for name in folders for path in (REPOSITORY / name).rglob("*")
    )
    kinds = (".py", ".pyi", ".typed", ".html", ".css", ".json", ".zip")
    return {f"{folders[name]}/{below}" for name, path, below in paths if path.suffix in kinds}


def test_the_package_is_all_there_is() -> None:
    assert {"shardmill/_native.pyi", "shardmill/py.typed", "shardmill/transforms/__init__.py"} < expected()
    assert {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} == {"transforms", "pipelines", "tests"}
    assert {path.name: path.resolve() for path in (REPOSITORY / "src/shardmill").iterdir() if path.is_symlink()} == {
        name: REPOSITORY / name for name in ("transforms", "pipelines")
    }


@pytest.mark.parametrize("name", ["transforms", "pipelines"])
def test_a_folder_of_the_checkout_is_no_package_of_its_own(name: str) -> None:
    status, _, err = _python(REPOSITORY, "", sys.executable, "-c", f"import {name}")

    assert (status, err.splitlines()[-1]) == (1, f"ImportError: import shardmill.{name} instead of {name}")


def test_the_sdist_holds_every_module_and_the_source_of_the_compiled_one(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        *(f"src/{name}" for name in expected()),
        "src/shardmill/_native.c",
        "src/shardmill/_native.h",
        "src/shardmill/_native_examples.c",
        "src/shardmill/_native_images.c",
        "src/shardmill/_native_json.c",
        "src/shardmill/_native_tar.c",
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
    flags = ("--name", "n", "--direct_running_mode", "multi_processing")
    return Result(*_python(folder, path, *program, "csv", "--input", "in/a.csv", "--output", "out", *flags))


def _python(folder: Path, path: str, *words: object) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([*map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("editable", ["no", "plain", "strict"])
def test_an_installation_runs_beside_modules_of_the_same_names(
    tmp_path: Path, wheel: Path, source: Path, linked: Path, editable: str
) -> None:
    """A user's project has its own transforms/ and pipelines.py; workers start in its folder."""
    what = (wheel,) if editable == "no" else ("-e", source, "--config-settings", "editable_mode=strict")
    programs = linked if editable == "plain" else install(tmp_path / "installed", *what)
    folder = write_files(tmp_path / "project", FOREIGN)
    result = convert(folder, programs / "shardmill", path=".")

    assert result.status == 0, result.err
    assert (folder / "out/n/1.0.0/_SUCCESS").exists()
    _, where, _ = _python(folder, "", programs / "python", "-c", "import shardmill; print(shardmill.__file__)")
    assert where.startswith(str(tmp_path if editable == "no" else source))
    installed = {path.name for path in programs.parent.glob("lib/python*/site-packages/*")}
    assert not installed & {"transforms", "pipelines"}


TYPED = """from pathlib import Path
import shardmill

where = {"a": "int64"}
published = shardmill.convert(
    "csv", input=Path("rows.csv"), output="out", name="d", label="city", splits={"train": 0.9, "test": 0.1},
    drop=["a"], types=where, shard_size=1 << 27, progress=True,
)
size: int = published.splits["train"]
text: str = shardmill.plan("images", input="photos", output=Path("out"), name="p", resize=(224, 224)).text
rebuilt: shardmill.Rebuilt = shardmill.rebuild(Path("d.yaml"), date="2026-11-20", set={"A": "b"}, accept=["c"])
if not rebuilt.ok and rebuilt.status == "checks_failed":
    accepted: shardmill.Accepted = shardmill.accept("out/d", rebuilt.version, reason=", ".join(rebuilt.failed_checks))
checked: shardmill.Verification = shardmill.verify(Path("out/d"), decode=True, progress=True)
files: list[str] = [fault.file for fault in checked.faults]
rows: shardmill.Versions = shardmill.versions("out/d")
newest: shardmill.VersionRow = rows[0]
sizes: list[int | None] = [row.size_bytes for row in rows]
seen: shardmill.Inspection = shardmill.inspect("out/d", examples=1, contact_sheet=True)
picture: bytes | None = seen.contact_sheet
compared: shardmill.Comparison = shardmill.diff("out/d", "1.0.0", shardmill.rollback(Path("out/d")).version)
words: list[str] = [found.words for found in compared.differences]
page: shardmill.Report = shardmill.report("out/d", output=Path("page.html"))
tagged: shardmill.Tagged = shardmill.tag("out/d", "1.0.0", "good", move=True)
kept: shardmill.Retained = shardmill.retain(Path("d.yaml"), dry_run=True)
described: shardmill.DatasetInfo = shardmill.info(Path("out/d"))
classes: tuple[str, ...] = described.class_names
first = next(iter(shardmill.examples("out/d", "train")))
try:
    shardmill.verify("out/d")
except (shardmill.UserError, shardmill.JobError, shardmill.CorruptDataError) as error:
    status: int = error.exit_status
"""
MISTYPED = """import shardmill
x: int = shardmill.info("d")
shardmill.convert("csv", input="x", output="y", name="n", lable="z")
shardmill.convert("csv", input="x", output="y", name="n", balance="byte")
shardmill.convert("csv", input="x", name="n")
shardmill.plan("images", input="x", output="y", name="n", pack_to=8)
shardmill.rebuild("d.yaml", frce=True)
shardmill.verify(7)
y: int = shardmill.versions("d")[0].version
"""


def test_mypy_finds_types_from_a_file_outside(tmp_path: Path, linked: Path) -> None:
    write_files(tmp_path, {"good.py": TYPED.encode(), "bad.py": MISTYPED.encode()})
    command = (sys.executable, "-m", "mypy", "--strict", "--python-executable", linked / "python")
    status, out, _ = _python(tmp_path, "", *command, "good.py", "bad.py")
    assert status == 1
    found = [line.split(":")[:2] for line in out.splitlines() if ": error:" in line]
    assert found == [["bad.py", str(line)] for line in (2, 3, 3, 4, 5, 6, 7, 8, 9)]
    assert "(checked 2 source files)" in out
    assert 'did you mean "label"' in out
    assert "Incompatible types in assignment" in out


def test_pyright_is_as_strict(tmp_path: Path, linked: Path) -> None:
    pytest.importorskip("pyright")
    write_files(tmp_path, {"good.py": TYPED.encode(), "bad.py": MISTYPED.encode()})
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = (sys.executable, "-m", "pyright", "--pythonpath", linked / "python")
    status, out, err = _python(tmp_path, "", *command, "good.py", "bad.py")
    assert status == 1, err
    found = set(re.findall(r"(\w+)\.py:(\d+):\d+ - error", out))
    assert found == {("bad", str(line)) for line in range(2, 10)}, out
    assert ", 0 warnings, 0 informations" in out.splitlines()[-1]


def test_beam_stages_one_package(tmp_path: Path, source: Path) -> None:
    """The archive that `--setup_file ./setup.py` sends to workers installs as `shardmill` alone."""
    program = (
        "import sys; from apache_beam.runners.portability.stager import Stager; "
        "print(Stager._build_setup_package(sys.argv[1], sys.argv[2]))"
    )
    status, out, err = _python(source, "", sys.executable, "-c", program, source / "setup.py", tmp_path)

    assert status == 0, err
    with tarfile.open(out.splitlines()[-1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in expected()} <= names


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
