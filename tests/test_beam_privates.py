"""What of Beam has no public way is used in one module each; a new use fails here."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators
from apache_beam.utils import interactive_utils

from shardmill.pipelines.jobs.launch import cache_signatures
from shardmill.transforms.execution.running import ReportingFn, report_failures

ROOT = Path(__file__).resolve().parent.parent
PATHS = [
    path
    for folder in ("transforms", "pipelines", "src/shardmill/addons")
    for path in sorted(ROOT.glob(f"{folder}/**/*.py"))
]
# Each is tested where it is used: a Beam that changes it fails that test. `_add_argparse_args` is how options are
# declared.
USED = {
    "transforms/shards/writing.py": {"_sink"},
    "pipelines/config/beam_flags.py": {"_BeamArgumentParser", "_add_argparse_args"},
}
# What has no underscore where it is used, or is a method that Beam looks for, by words of the line that does
RELIED_ON = {
    "def _inspect_process": "transforms/execution/running.py",
    "step.fn = ": "transforms/execution/running.py",
    ".get_signature": "pipelines/jobs/launch.py",
    ".get_dofn_specs": "pipelines/jobs/launch.py",
    '"_check_fn_use_yield_and_return"': "pipelines/jobs/launch.py",
    '"_make_origin"': "pipelines/jobs/launch.py",
    '"STATE_CACHE_SIZE_MB"': "pipelines/jobs/launch.py",
    "is_in_ipython": "pipelines/jobs/launch.py",
    "_worker_threads": "pipelines/jobs/local_cluster.py",
}
OTHERS = {
    "_StoreAction",
    "_SubParsersAction",
    "_actions",
    "_asdict",
    "_exit",
    "_replace",
}  # of argparse, os, and named tuples


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
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in PATHS}
    own = own_names(list(trees.values())) - {name for names in USED.values() for name in names}
    hidden = {
        path: {name for name in privates(tree) if name.startswith("_") and not name.startswith("__")}
        for path, tree in trees.items()
    }

    assert {path: names - own - OTHERS for path, names in hidden.items() if names - own - OTHERS} == USED


def test_what_else_is_relied_on_is_in_one_module_each() -> None:
    for words, module in RELIED_ON.items():
        assert [str(path.relative_to(ROOT)) for path in PATHS if words in path.read_text()] == [module], words


class _Timed(beam.DoFn):
    def process(self, element: int, more: int = 1, time: Any = beam.DoFn.TimestampParam) -> list[int]:
        return [element + more]


def test_beam_asks_the_wrapper_for_the_parameters_inside() -> None:
    """`_inspect_process`: without it, Beam would take `process` for a function that wants no timestamp."""
    inner = _Timed()
    arguments = ReportingFn(inner, "step", "unused").get_function_arguments("process")
    assert arguments == inner.get_function_arguments("process")
    assert beam.DoFn.TimestampParam in arguments[1]


def test_beam_runs_the_function_that_a_step_was_given() -> None:
    """`step.fn = …`: a step that is built is told to the runner with the function that it has then."""
    pipeline = beam.Pipeline()
    pipeline | beam.Create([1]) | "Timed" >> beam.ParDo(_Timed())
    report_failures(pipeline, "unused")
    told = pipeline.to_runner_api().components.transforms.values()
    (step,) = (step for step in told if step.unique_name == "Timed")
    payload = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
    function, *_ = pickler.loads(payload.do_fn.payload)
    assert isinstance(function, ReportingFn)


def test_beam_asks_for_signatures_where_they_are_remembered() -> None:
    """`get_signature`: in both modules, by that name."""
    asked: list[Any] = []
    for module in (decorators, core):
        assert module.get_signature is decorators.get_signature
        assert "get_signature(" in Path(module.__file__).read_text()
    with cache_signatures():
        for module in (decorators, core):
            asked.append(module.get_signature(_Timed().process))
    assert asked[0] is asked[1]


def test_beam_asks_for_state_and_timers_where_they_are_remembered() -> None:
    """`userstate.get_dofn_specs`: looked up there whenever it is called, by those that are built on it too."""
    function, asked = _Timed(), userstate.get_dofn_specs
    for place in ("transforms/core.py", "runners/common.py", "runners/worker/operations.py"):
        assert "userstate.get_dofn_specs(" in (Path(beam.__file__).parent / place).read_text()
    with cache_signatures():
        assert userstate.get_dofn_specs(function) is userstate.get_dofn_specs(function)
    assert userstate.get_dofn_specs is asked


def test_beam_makes_the_cache_of_side_inputs_as_large_as_is_said_there() -> None:
    """`STATE_CACHE_SIZE_MB`: of none it asks no sizes."""
    with cache_signatures():
        assert worker_handlers.STATE_CACHE_SIZE_MB == 0
    assert worker_handlers.STATE_CACHE_SIZE_MB > 0
    assert "StateCache(STATE_CACHE_SIZE_MB * MB_TO_BYTES)" in Path(worker_handlers.__file__).read_text()


def test_beam_parses_functions_and_takes_stacks_for_messages_alone() -> None:
    """`_check_fn_use_yield_and_return` and `_make_origin`: without them there are a warning and a quotation less."""
    functions, hints = (Path(module.__file__).read_text() for module in (core, decorators))
    assert functions.count("_check_fn_use_yield_and_return(") == 2  # the definition
    assert "if _check_fn_use_yield_and_return(self.fn.process):\n      _LOGGER.warning(" in functions
    assert len(re.findall(r"origin=(?:cls|self)\._make_origin\(", hints)) == hints.count("._make_origin(") - 1
    assert decorators.IOTypeHints.empty().origin == []


def test_beam_asks_if_it_is_in_a_notebook_where_that_is_hidden() -> None:
    """`is_in_ipython`: in both modules, by that name."""
    for module in (beam.pipeline, interactive_utils):
        assert "if is_in_ipython():" in (text := Path(module.__file__).read_text()) or "if not is_in_ipython():" in text


def test_every_place_names_the_beam_that_is_tested() -> None:
    """Workers' image, Prism and constraints.txt are of one release, and pyproject.toml takes its minor version
    alone."""
    (release,) = re.findall(r"^apache-beam==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    major, minor, _ = map(int, release.split("."))
    pins = re.findall(r'"apache-beam(?:\[\w+\])?(>=.*?)"', (ROOT / "pyproject.toml").read_text())

    assert set(pins) == {f">={major}.{minor},<{major}.{minor + 1}"}
    assert f"ARG BEAM_VERSION={release}\n" in (ROOT / "Dockerfile").read_text()
    assert f'prism@v{release}"' in (ROOT / "tests/end_to_end/runners/test_prism.py").read_text()
