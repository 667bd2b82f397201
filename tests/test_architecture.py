"""The structure of the package: rooms, the imports between them, their sizes, and what imports Beam or TensorFlow."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardmill.addons import registry
from tests.support.command import REPOSITORY, SOURCE

TENSORFLOW = {"tensorflow", "tensorflow_datasets", "tensorflow_transform"}
TRANSFORM = "shardmill.addons.transform"
GRAPH_PROCESS = f"{TRANSFORM}.tensorflow_graph"  # imports TensorFlow Transform, in a process of its own
APPLIED = f"{TRANSFORM}.tensorflow_apply"  # workers import it to write transformed examples
ANALYZED = f"{TRANSFORM}.tensorflow_module"  # launcher and workers import it for --module_file
THREADS = f"{TRANSFORM}.graph_process"  # imports TensorFlow in a function
WITH_BEAM = ("shardmill.transforms.", "shardmill.pipelines.", "shardmill.addons.")
WITH_TENSORFLOW = (GRAPH_PROCESS, APPLIED, ANALYZED, THREADS)


VIEW = "src/shardmill/addons/view"  # the one room that MOST_LINES leaves out


class Room(NamedTuple):
    """A folder of modules about one subject.

    A room imports only rooms of lower floors. `lines` is its ceiling; a higher one needs a reason on its line.
    """

    path: str
    floor: int
    lines: int

    @property
    def folder(self) -> Path:
        return REPOSITORY / self.path

    @property
    def package(self) -> str:
        return "shardmill." + self.path.removeprefix("src/shardmill/").replace("/", ".")


ROOMS = (
    Room("src/shardmill/data", 1, 2_940),  # examples are decoded by columns, indexes of shards, ArrayRecord
    Room("src/shardmill/metadata", 2, 1_620),  # features of TFDS
    Room("src/shardmill/quality", 3, 2_530),  # statistics of wide tables
    Room("src/shardmill/reading", 4, 3_630),  # random access, orders, slices, reading ahead
    Room("transforms/stores", 3, 3_800),  # checksums of whole objects, faults of Azure, ranges for readers
    Room("transforms/options", 4, 1_310),  # limits of rejects, texts of options
    Room("transforms/columns", 5, 3_500),  # a sample of the numbers that float32 merges, Arrow batches of examples
    Room("transforms/workers", 5, 770),
    Room("transforms/execution", 6, 680),
    Room("transforms/formats", 6, 6_530),  # records that are cut short, rows that are counted
    Room("transforms/statistics", 6, 2_460),  # columns of wide tables are counted together
    Room("transforms/shards", 8, 1_600),  # strata of sequences, positions of records, parts of shards as a PCollection
    Room("transforms/inputs", 9, 3_930),  # tables that name images, revisions of files, files that are left out
    Room("transforms/rows", 10, 1_080),  # rows of memory
    Room("transforms/layout", 10, 2_080),  # other columns
    Room("transforms/features", 11, 250),  # hooks of add-ons, also for manifests
    Room("transforms/files", 11, 4_630),  # whole files that change, images in compiled calls, sorting in little memory
    Room("transforms/records", 12, 2_120),  # repeated keys, ties by content, values that stay in input files
    Room("transforms/publishing", 12, 3_000),  # accepted versions, retention, indexes of shards
    Room("pipelines/config", 13, 2_830),  # data sets as input of reshard, rows
    Room("pipelines/reports", 14, 730),  # classes before and now, short notices
    Room("pipelines/jobs", 15, 4_230),  # plan and convert, folders of killed jobs, WriteDataset
    Room("pipelines/commands", 17, 1_460),  # with the functions for Python, of which no room counted the module
    Room("src/shardmill/addons/mapping", 18, 1_450),
    Room("src/shardmill/addons/annotations", 18, 2_540),
    Room("src/shardmill/addons/near_duplicates", 18, 470),
    Room("src/shardmill/addons/nightly", 18, 2_650),
    Room("src/shardmill/addons/reports", 18, 2_330),  # contact sheets, the page, and the commands that show data sets
    Room("src/shardmill/addons/samples", 18, 100),
    Room("src/shardmill/addons/sql", 18, 870),
    Room("src/shardmill/addons/masks", 18, 560),
    Room("src/shardmill/addons/run_lengths", 18, 420),
    Room("src/shardmill/addons/sequences", 18, 580),
    Room("src/shardmill/addons/times", 18, 300),
    Room("src/shardmill/addons/tokens", 18, 1_050),
    Room("src/shardmill/addons/transform", 18, 2_510),
    Room(VIEW, 18, 2_100),  # of these the server, its command and its page have less than 1,200
)
ADD_ONS = tuple(room for room in ROOMS if "/addons/" in room.path)
REGISTRY = "shardmill.addons.registry"
# Words of add-ons, by folder, which no name of the core contains
ADD_ON_WORDS = {
    "mapping": ("map_batches", "user_function", "userfunction", "mapcalls", "maprecords", "mapfiles", "mapped_"),
    "annotations": ("datumaro", "labelme", "label_studio", "createml", "coco", "yolo", "boxes_csv", "parse_export"),
    "near_duplicates": ("near_duplicate", "perceptual", "look_alike", "similar_contents"),
    "masks": ("maskfolder", "mask_color", "mask_column", "mask_dtype", "masks_seen"),
    "nightly": ("nightly", "retention", "rebuild"),
    "run_lengths": ("runlength", "drawingcodec", "draw_shape", "masks_of"),
    "reports": ("contact_sheet", "picture_finder", "render_page", "report_content"),
    "samples": ("write_sample", "selftest"),
    "sql": ("sql", "bigquery", "database"),
    "times": ("parse_timestamps", "read_times", "time_changes", "timechanges", "naive"),
    "sequences": ("sequence_by", "sequencing", "gather_rows"),
    "transform": ("materialize", "preprocessing", "module_file", "declaredoptions"),
    "view": ("viewserver", "open_view", "recordsinspection"),
    "tokens": ("tokenizer", "tokenization", "tokenized", "input_ids", "pack_to", "special_token", "end_of_text"),
}
# Modules outside rooms, and their floors
SINGLE = {
    "shardmill.text": 0,
    "shardmill.flag_values": 0,
    "shardmill.errors": 0,
    "shardmill.installed": 0,
    "shardmill.filesystem": 0,
    "shardmill.transforms": 0,
    "shardmill.transforms.findings": 4,
    "shardmill.transforms.encodings": 5,
    "shardmill.transforms.times": 4,
    "shardmill.transforms.analysis": 5,
    "shardmill.transforms.user_module": 5,
    "shardmill.transforms.strata": 9,
    "shardmill.pipelines": 0,
    "shardmill.addons": 0,
    "shardmill.addons.registry": 0,
    "shardmill.torch": 5,
    "shardmill.beam": 19,
    "shardmill.pipelines.cli": 20,
    "shardmill.__main__": 21,
    "shardmill": 22,  # the public API
}
TESTS = REPOSITORY / "tests"
MOST_PRIVATE_PATCHES = 15
MOST_NAMED_FLAGS = 8  # of transform in messages of the reader and of runners, of nightly, and Beam's --labels; it falls
MOST_MODULES = 16  # in a room
MOST_SMALL = 10  # modules of fewer than 60 lines, without `__init__.py`
MOST_LOADED = 134  # modules of the package, by a job over a table of three rows; it only falls
MOST_LINES = 76527  # it only falls


def name_of(path: Path) -> str:
    """The dotted name of a module; that of a package for its `__init__.py`."""
    below = path.relative_to(REPOSITORY)
    parts = below.parts[1:] if below.parts[0] == "src" else ("shardmill", *below.parts)
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


PATHS = {
    name_of(path): path
    for folder in ("src/shardmill", "transforms", "pipelines")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
}
KNOWN = PATHS.keys() | {"shardmill._native"}  # which is compiled


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(PATHS[module].read_text())


@cache
def imported(module: str) -> tuple[str, ...]:
    """The dotted names that a module imports, inside functions too: of ours, the modules."""
    return tuple(named_in(ast.walk(parsed(module))))


def named_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names in the imports among `nodes`: of ours, the modules."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import of {node.module}"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in KNOWN else node.module or ""


def ours(module: str) -> set[str]:
    """The other modules of the package that a module imports; `shardmill` itself has the version and is left out."""
    return {name for name in imported(module) if name in PATHS} - {"shardmill", module}


def room_of(module: str) -> Room | None:
    return next((room for room in ROOMS if f"{module}.".startswith(f"{room.package}.")), None)


def floor(module: str) -> int:
    room = room_of(module)
    return SINGLE[module] if room is None else room.floor


@pytest.mark.parametrize("module", sorted(PATHS))
def test_imports_point_down(module: str) -> None:
    room = room_of(module)
    others = {name for name in ours(module) if room is None or room_of(name) != room}

    assert sorted(name for name in others if floor(name) >= floor(module) and floor(module)) == []
    assert {name.split(".")[0] for name in imported(module)} & {"tests", "benchmarks", "examples"} == set()


def names_in(module: str) -> Iterator[str]:
    """The names that a module defines or uses, and those of its fields and keyword arguments."""
    for node in ast.walk(parsed(module)):
        yield from (
            value
            for field in ("id", "attr", "arg", "name", "asname", "module")
            if isinstance(value := getattr(node, field, None), str)
        )


def test_the_registry_alone_names_add_ons() -> None:
    """An add-on imports any room of the core, the core imports no add-on, and no add-on imports another."""
    assert {room.package for room in ADD_ONS} == {f"shardmill.addons.{add_on.folder}" for add_on in registry.ADD_ONS}
    assert {room.folder.name for room in ADD_ONS} == ADD_ON_WORDS.keys()
    for module in PATHS:
        inside = room_of(module)
        others = {room_of(name) for name in ours(module)} & set(ADD_ONS) - {inside}
        assert others == set(), f"{module} imports an add-on"


@pytest.mark.parametrize("module", sorted(name for name in PATHS if room_of(name) not in ADD_ONS and name != REGISTRY))
def test_the_core_has_no_words_of_add_ons(module: str) -> None:
    words = [word for of_add_on in ADD_ON_WORDS.values() for word in of_add_on]

    assert sorted({name for name in names_in(module) if any(word in name.lower() for word in words)}) == []


def declared_flags(module: str) -> Iterator[str]:
    """Yield the flags that a module declares: fields of options, and arguments of a parser."""
    for node in ast.walk(parsed(module)):
        match node:
            case ast.AnnAssign(target=target, value=ast.Call(func=maker)) if ast.unparse(maker).endswith("flag"):
                named = re.search(r"\bname='(\w+)'", ast.unparse(node))
                yield named[1] if named else ast.unparse(target)
            case ast.Call(func=maker) if ast.unparse(maker).endswith("add_argument"):
                yield from re.findall(r"'--(\w+)'", ast.unparse(node))


def named_flags(node: ast.AST, owners: dict[str, Room | None], asked: frozenset[Any] = frozenset()) -> Iterator[str]:
    """Yield flags in texts, but for docstrings and functions that ask the registry for a flag of the same owner."""
    if isinstance(node, ast.FunctionDef):
        asked |= {owners.get(name) for name in re.findall(r"registry\.has_flag\('(\w+)'", ast.unparse(node))}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (flag for flag in re.findall(r"--(\w+)", node.value) if owners.get(flag) not in {None, *asked})
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    for inner in () if is_docstring else ast.iter_child_nodes(node):
        yield from named_flags(inner, owners, asked)


def test_the_core_names_flags_of_add_ons_only_if_they_are_there() -> None:
    core = [module for module in PATHS if room_of(module) not in ADD_ONS and module != REGISTRY]
    owners = {flag: room_of(module) for module in PATHS.keys() - {*core} for flag in declared_flags(module)}
    owners |= {flag: None for module in core for flag in declared_flags(module)}
    named = [f"{module}: --{flag}" for module in core for flag in named_flags(parsed(module), owners)]

    assert {"timestamp", "masks", "tokenizer", "sequence_by", "query", "accept"} < {f for f in owners if owners[f]}
    assert len(named) <= MOST_NAMED_FLAGS, named


def test_a_folder_of_tests_is_a_room() -> None:
    rooms = {room.package for room in ROOMS}
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    mirrors = ("shardmill", "transforms", "pipelines", "addons")
    inner = {folder.parts for folder in folders if folder.parts[:1] and folder.parts[0] in mirrors}
    named = {"shardmill." + ".".join(parts[:2]).removeprefix("shardmill.") for parts in inner if len(parts) > 1}

    assert named - rooms == set()


def private_patches() -> Iterator[str]:
    """Yield the places where tests replace what the package calls with an underscore."""
    name = re.compile(r"(?:.*\.)?_[a-zA-Z]\w*")
    for path in sorted(TESTS.rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            words = [word.value for word in call.args[:2] if isinstance(word, ast.Constant)]
            if "setattr" in ast.unparse(call.func) and any(name.fullmatch(str(word)) for word in words):
                yield f"{path.relative_to(TESTS)}:{call.lineno}"


def test_few_tests_replace_private_names() -> None:
    assert len(places := list(private_patches())) <= MOST_PRIVATE_PATCHES, places


def test_every_module_is_in_a_room() -> None:
    assert {module for module in PATHS if room_of(module) is None} == SINGLE.keys()
    assert all((room.folder / "__init__.py").exists() for room in ROOMS)


@pytest.mark.parametrize("room", ROOMS, ids=[room.package for room in ROOMS])
def test_a_room_is_small(room: Room) -> None:
    paths = list(room.folder.rglob("*.py"))

    assert {path.parent for path in paths} == {room.folder}  # no folders in rooms
    assert len(paths) <= MOST_MODULES
    assert sum(len(path.read_text().splitlines()) for path in paths) <= room.lines
    assert ast.get_docstring(parsed(room.package))


def test_the_package_is_small() -> None:
    sizes = {name: len(path.read_text().splitlines()) for name, path in PATHS.items()}
    small = [name for name, size in sizes.items() if size < 60 and PATHS[name].name != "__init__.py"]

    assert len(ROOMS) - len(ADD_ONS) <= 24
    assert sum(path.name != "__init__.py" and room_of(name) not in ADD_ONS for name, path in PATHS.items()) <= 222
    assert len(small) <= MOST_SMALL, small
    assert sum(size for name, size in sizes.items() if f"/{VIEW}/" not in str(PATHS[name])) <= MOST_LINES


def test_paths_that_contributing_names_are_there() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    folders = "src|transforms|pipelines|tests|benchmarks|docs|deploy|examples"
    named = set(re.findall(rf"(?<![\w/.-])(?:{folders})/[\w./-]*\w", text))

    assert len(named) > 20
    assert sorted(path for path in named if not (REPOSITORY / path).exists()) == []


def table_of_rooms() -> str:
    """The table in CONTRIBUTING.md: `python -m tests.test_architecture` writes it."""
    rows = [
        f"| {room.floor} | `{room.path}/` | {(ast.get_docstring(parsed(room.package)) or '').rstrip('.')} |"
        for room in ROOMS
    ]
    return "\n".join(["| floor | room | what it holds |", "|---|---|---|", *rows])


def test_contributing_has_the_table_of_rooms() -> None:
    assert table_of_rooms() in (REPOSITORY / "CONTRIBUTING.md").read_text()


# Names of modules and paths of the package in its texts
_NAME = re.compile(r"(?<![\w./-])(?:shardmill|transforms|pipelines)(?:\.[A-Za-z_]\w*)+")
_PATH = re.compile(r"(?<![\w.*/-])(?:shardmill|transforms|pipelines)/(?:\w+/)*\w+\.(?:py|c)\b")


def is_name(name: str) -> bool:
    """Return True if a dotted name is a module's, or begins with a module whose text has the next word."""
    name = f"shardmill.{name.removeprefix('shardmill.')}"
    parts = name.split(".")
    modules = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    module = next((module for module in modules if module in KNOWN), None)
    if module is None or module == name:
        return module is not None
    following = parts[module.count(".") + 1]
    return re.search(rf"\b{following}\b", PATHS[module].read_text()) is not None


@pytest.mark.parametrize("path", [*PATHS.values(), *(SOURCE / "shardmill").glob("*.[ch]")], ids=lambda path: path.name)
def test_names_of_modules_and_paths_in_texts_are_there(path: Path) -> None:
    text = path.read_text()
    assert [name for name in _NAME.findall(text) if not is_name(name)] == []
    assert [name for name in _PATH.findall(text) if not any((at / name).exists() for at in (REPOSITORY, SOURCE))] == []


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
    assert circles({module: ours(module) for module in PATHS.keys() - {"shardmill"}}) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c", "b"]]


@pytest.mark.parametrize("module", sorted(PATHS))
def test_beam_and_tensorflow_are_where_they_belong(module: str) -> None:
    libraries = {name.split(".")[0] for name in imported(module)}

    if not module.startswith(WITH_BEAM):
        assert "apache_beam" not in libraries
    elif module not in WITH_TENSORFLOW:
        assert not libraries & TENSORFLOW
    assert GRAPH_PROCESS not in imported(module)
    assert APPLIED not in imported(module) or module == f"{TRANSFORM}.shards"
    assert ANALYZED not in imported(module) or module == f"{TRANSFORM}.analyses"


def test_tensorflow_is_imported_only_where_examples_are_transformed_or_analyzed() -> None:
    for module in PATHS:
        assert not {APPLIED, ANALYZED} & set(named_in(parsed(module).body))


def import_blocked(
    names: list[str], blocked: Iterable[str] = ("apache_beam", "tensorflow", "tensorflow_datasets")
) -> subprocess.CompletedProcess[str]:
    """Import `names` in a process where `blocked` packages cannot be imported."""
    script = "\n".join(
        [
            "import importlib, sys",
            f"for blocked in {tuple(blocked)!r}: sys.modules[blocked] = None",
            f"for name in {names!r}: importlib.import_module(name)",
        ]
    )
    return subprocess.run([sys.executable, "-c", script], cwd=SOURCE, capture_output=True, text=True, timeout=60)


def needs_beam() -> set[str]:
    """The modules of transforms/ that import Beam at their top, themselves or by what they import there."""
    direct = {module: set(named_in(parsed(module).body)) for module in PATHS}
    needing = {module for module, names in direct.items() if any(name.split(".")[0] == "apache_beam" for name in names)}
    while more := {module for module, names in direct.items() if module not in needing and names & needing}:
        needing |= more
    return {module for module in needing if module.startswith("shardmill.transforms.")}


def test_all_else_imports_without_beam() -> None:
    pure = {module for module in PATHS if not module.startswith(WITH_BEAM[1:])}
    done = import_blocked(sorted(pure - needs_beam() - set(WITH_TENSORFLOW) - {"shardmill.beam", "shardmill.torch"}))

    assert done.returncode == 0, done.stderr


def test_a_job_over_rows_loads_few_modules(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n2,y\n3,z\n")
    job = ["csv", f"--input={tmp_path}/rows.csv", f"--output={tmp_path}", "--name=rows", "--quiet"]
    script = f"import sys; from shardmill.pipelines import cli; print(cli.main({job}), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=SOURCE, capture_output=True, text=True, timeout=60)
    status, *names = done.stdout.split()
    loaded = sorted(name for name in names if name in PATHS and PATHS[name].name != "__init__.py")

    assert (status, len(loaded) <= MOST_LOADED) == ("0", True), f"{len(loaded)} modules: {loaded}\n{done.stderr}"


def test_the_reader_imports_three_packages() -> None:
    """An installation that only reads has no others (docs/install.md)."""
    reading = [module for module in PATHS if module.startswith("shardmill.reading.")]
    needed = {"numpy", "google_crc32c", "PIL"}
    others = {name.split(".")[0] for module in PATHS for name in imported(module)}
    done = import_blocked(reading, others - needed - {"shardmill", "google"} - sys.stdlib_module_names)

    assert len(reading) > 4
    assert done.returncode == 0, done.stderr


def test_few_modules_need_beam() -> None:
    assert len(needs_beam()) <= 40


def test_the_block_does_block() -> None:
    assert "apache_beam" in import_blocked(["shardmill.transforms.shards.cuts"]).stderr


if __name__ == "__main__":
    page = REPOSITORY / "CONTRIBUTING.md"
    old = re.compile(r"\| floor \| room \|.*?(?=\n\n)", re.DOTALL)
    page.write_text(old.sub(lambda _: table_of_rooms(), page.read_text()))
