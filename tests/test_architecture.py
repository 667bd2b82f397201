"""The house: every import points one way, no circle anywhere, and pure modules need neither Beam nor TensorFlow."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("shardmill", "transforms", "pipelines")
# The rooms of each package from bottom to top: one imports what stands before it, and itself.
ROOMS = {
    package: tuple(rooms.split())
    for package, rooms in {
        "shardmill": (
            "printable errors installation filesystems features records codecs media kinds metadata statistics versions"
            " reading tensors checks __main__"
        ),
        "transforms": (
            "stores options workers rejects columns tokens sequences statistics contents preprocessing sharding"
            " examples writing formats inputs layout publishing files records verification"
        ),
        "pipelines": "flags config reports graphs kinds recipes running rebuilding commands cli __main__",
    }.items()
}
TENSORFLOW = {"tensorflow", "tensorflow_datasets", "tensorflow_transform"}
GRAPH_PROCESS = (
    "shardmill.transforms.preprocessing.tensorflow_graph"  # the one that imports TFT, in a process of its own
)
APPLIED = "shardmill.transforms.preprocessing.tensorflow_apply"  # workers import it
ANALYZED = (
    "shardmill.transforms.preprocessing.tensorflow_module"  # and the one for --module_file, of launcher and workers
)
THREADS = "shardmill.transforms.preprocessing.tensorflow_threads"  # and how many threads it has in them
WITH_TENSORFLOW = (GRAPH_PROCESS, APPLIED, ANALYZED, THREADS)


SOURCE = ROOT / "src"


def folder(package: str) -> Path:
    return SOURCE / "shardmill" if package == "shardmill" else SOURCE / "shardmill" / package


def modules(package: str) -> list[str]:
    """Every module below a package, by its dotted name; a package is the name of its `__init__.py`."""
    paths = sorted(folder(package).rglob("*.py"))  # follows no link, so that shardmill is the reader alone
    names = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


EVERY = {module for package in PACKAGES for module in modules(package)}
KNOWN = EVERY | {"shardmill._native"}  # which is compiled


@cache
def parsed(module: str) -> ast.Module:
    path = SOURCE / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


@cache
def imported(module: str) -> tuple[str, ...]:
    """The dotted names that a module imports, inside functions too: of ours, the modules."""
    return tuple(named_in(ast.walk(parsed(module))))


def named_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What the imports among `nodes` name: of ours, the modules."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import of {node.module}"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in KNOWN else node.module or ""


def split(module: str) -> tuple[str, list[str]]:
    """The package of a module, one of PACKAGES, and the rest of its name."""
    _, *rest = module.split(".")
    return (rest[0], rest[1:]) if rest and rest[0] in PACKAGES[1:] else ("shardmill", rest)


def room(module: str) -> tuple[int, int]:
    """The place of a module: that of its package, and of its room in it; a package itself stands on
    top of its rooms, and shardmill itself, which is the API, on top of all."""
    package, rest = split(module)
    rooms = ROOMS[package]
    if module == "shardmill":
        return len(PACKAGES), 0
    return PACKAGES.index(package), rooms.index(rest[0]) if rest else len(rooms)


@pytest.mark.parametrize("module", sorted(EVERY))
def test_imports_point_one_way(module: str) -> None:
    ours = [name for name in imported(module) if name in EVERY - {"shardmill"}]  # that one for its version

    assert [name for name in ours if room(name) > room(module)] == []
    assert {name.split(".")[0] for name in imported(module)} & {"tests", "benchmarks", "examples"} == set()


def test_every_room_stands_in_the_order() -> None:
    for package, rooms in ROOMS.items():
        files = {path.stem for path in folder(package).glob("*.py")} - {"__init__"}
        folders = {path.parent.name for path in folder(package).glob("*/*.py")} - set(PACKAGES)
        assert files | folders == set(rooms)


@pytest.mark.parametrize(
    "package", [module for module in sorted(EVERY) if (SOURCE / module.replace(".", "/")).is_dir()]
)
def test_every_package_says_what_it_is_for(package: str) -> None:
    assert ast.get_docstring(parsed(package))


PAGES = ("CONTRIBUTING.md",)


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_a_page_names_are_there(page: str) -> None:
    folders = "src|transforms|pipelines|tests|benchmarks|docs|deploy|examples"
    named = set(re.findall(rf"(?<![\w/.-])(?:{folders})/[\w./-]*\w", (ROOT / page).read_text()))

    assert len(named) > 20
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_every_room_in_order(page: str) -> None:
    text = (ROOT / page).read_text()

    for rooms in ROOMS.values():
        named = [room for room in rooms if room != "__main__"]
        assert re.search(r"(?:\.py)?\W+".join(named), text), named


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The circles that a walk along `arrows` meets, each as the path that closes it."""
    found: list[list[str]] = []
    done: set[str] = set()

    def walk(path: list[str]) -> None:
        for target in sorted(arrows[path[-1]]):
            if target in path:
                found.append([*path[path.index(target) :], target])
            elif target not in done:
                walk([*path, target])
        done.add(path[-1])

    for start in sorted(arrows):
        if start not in done:
            walk([start])
    return found


def test_no_circle() -> None:
    inside = EVERY - {"shardmill"}
    arrows = {module: {name for name in imported(module) if name in inside and name != module} for module in inside}

    assert circles(arrows) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c", "b"]]


@pytest.mark.parametrize("module", sorted(EVERY))
def test_beam_and_tensorflow_are_where_they_belong(module: str) -> None:
    libraries = {name.split(".")[0] for name in imported(module)}

    if split(module)[0] == "shardmill":
        assert "apache_beam" not in libraries
    elif module not in WITH_TENSORFLOW:
        assert not libraries & TENSORFLOW
    assert GRAPH_PROCESS not in imported(module)
    assert APPLIED not in imported(module) or module == "shardmill.transforms.records.transformed"
    assert ANALYZED not in imported(module) or module in (
        "shardmill.transforms.records.analyze",
        "shardmill.pipelines.graphs.records_plan",
    )
    assert THREADS not in imported(module) or module in WITH_TENSORFLOW


def test_tensorflow_is_imported_only_where_examples_are_transformed_or_analyzed() -> None:
    assert {module.rpartition(".")[0] for module in WITH_TENSORFLOW} == {"shardmill.transforms.preprocessing"}
    for module in EVERY:
        assert not {APPLIED, ANALYZED} & set(named_in(parsed(module).body))


def import_blocked(names: list[str]) -> subprocess.CompletedProcess[str]:
    """Import `names` in a process where Beam and TensorFlow cannot be."""
    script = "\n".join(
        [
            "import importlib, sys",
            "for blocked in ('apache_beam', 'tensorflow', 'tensorflow_datasets'): sys.modules[blocked] = None",
            f"for name in {names!r}: importlib.import_module(name)",
        ]
    )
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)


def needs_beam() -> set[str]:
    """The modules of transforms/ that import Beam at their top, themselves or by what they import there."""
    direct = {module: set(named_in(parsed(module).body)) for module in EVERY}
    needing = {module for module, names in direct.items() if any(name.split(".")[0] == "apache_beam" for name in names)}
    while more := {module for module, names in direct.items() if module not in needing and names & needing}:
        needing |= more
    return {module for module in needing if split(module)[0] == "transforms"}


def test_all_else_imports_without_beam() -> None:
    pure = {module for module in EVERY if split(module)[0] != "pipelines"} - needs_beam() - set(WITH_TENSORFLOW)
    done = import_blocked(sorted(pure))

    assert done.returncode == 0, done.stderr


def test_formats_and_encoders_are_without_beam() -> None:
    free = (
        *(
            "formats",
            "columns",
            "statistics",
            "examples",
            "layout",
            "publishing",
            "files.images",
            "files.arrays",
            "files.audio",
        ),
        *("inputs.found", "inputs.folders", "inputs.summary"),
    )

    assert [
        module for module in sorted(needs_beam()) if module.removeprefix("shardmill.transforms.").startswith(free)
    ] == []
    assert [module for module in sorted(needs_beam()) if module.startswith("shardmill.transforms.sharding.")] == [
        "shardmill.transforms.sharding.cuts"
    ]


def test_few_modules_need_beam() -> None:
    assert len(needs_beam()) <= 32


def test_the_block_does_block() -> None:
    assert "apache_beam" in import_blocked(["shardmill.transforms.sharding.cuts"]).stderr
