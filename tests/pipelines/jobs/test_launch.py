"""Tests of pipelines/jobs/launch.py: jobs run by Python, errors, progress, and the signatures that Beam asks for."""

import ast
import glob
import inspect
import io
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators
from rich.console import Console
from rich.progress import Progress

import shardmill
from shardmill.errors import ERRORS_BY_NAME, JobError, UserError
from shardmill.pipelines.commands import convert
from shardmill.pipelines.jobs import launch, runner
from shardmill.pipelines.jobs.launch import cache_signatures, error_to_raise, progress_columns
from shardmill.transforms.execution.running import Failure, ReportingFn
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.build_records import read_record
from shardmill.transforms.stores import patience
from tests.support import typed_api
from tests.support.command import Run, tree_bytes, write_files
from tests.support.jobs import Jobs


def rows(folder: Path) -> Path:
    lines = "".join(f"{n},{('Oslo', 'Rome')[n % 2]}\n" for n in range(40))
    return write_files(folder, {"a.csv": f"id,city\n{lines}".encode()})


def settings() -> list[object]:
    signals = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    return [dict(os.environ), os.getcwd(), logging.getLogger("apache_beam").level, *signals]


def test_the_bytes_are_those_of_the_command_line(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beam does not ask if this is a notebook, where it would import modules that need pandas 2."""
    asked: list[None] = []
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: asked.append(None)))
    source = rows(tmp_path / "in")
    flags = ("--label", "city", "--splits", "train=0.75,test=0.25", "--num_shards", "2")
    assert run("csv", "--input", source, "--output", tmp_path / "there", "--name", "d", *flags).status == 0
    capsys.readouterr()
    before = settings()

    where: dict[str, Any] = {"input": source, "output": tmp_path / "here", "name": "d", "label": "city"}
    published = shardmill.convert("csv", **where, splits={"train": 0.75, "test": 0.25}, num_shards=2)

    assert asked == []
    assert settings() == before
    assert capsys.readouterr() == ("", "")
    assert tree_bytes(tmp_path / "here") == tree_bytes(tmp_path / "there")
    assert published.directory == str(tmp_path / "here/d/1.0.0")
    record = read_record(str(tmp_path / "here/d/builds/1.0.0.json"))
    assert record is not None
    assert (record.status, record.splits) == ("published", published.splits)
    assert (list(published.splits), sum(published.splits.values()), published.rejected) == (["train", "test"], 40, 0)


VALUES: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("csv", {"splits": {"train": 0.8, "test": 0.2}}, {"splits": "train=0.8,test=0.2"}),
    ("csv", {"drop": ["a", "b"]}, {"drop": "a,b"}),
    ("csv", {"columns": ["a", "b,c"]}, {"columns": 'a,"b,c"'}),
    ("csv", {"types": {"a": "int64", "b": "bytes"}}, {"types": "a=int64,b=bytes"}),
    ("csv", {"fill": {"a": 0}}, {"fill": ["a=0"]}),
    ("csv", {"rename": {"a": "b"}}, {"rename": ["a=b"]}),
    ("csv", {"timestamp": {"t": "ms"}}, {"timestamp": ["t=ms"]}),
    ("csv", {"missing": ("-", "?")}, {"missing": "-,?"}),
    ("csv", {"list_separator": {"p": " "}}, {"list_separator": ["p= "]}),
    ("csv", {"num_shards": 4}, {"num_shards": "4"}),
    ("csv", {"num_shards": {"train": 4, "test": 1}}, {"num_shards": "train=4,test=1"}),
    ("csv", {"shard_size": 100_000_000, "block_size": 1 << 20}, {"shard_size": "100MB", "block_size": "1MiB"}),
    ("csv", {"stack": {"image": "p*:uint8:28,28"}}, {"stack": ["image=p*:uint8:28,28"]}),
    ("csv", {"label": ["a", "b"]}, {"label": "a,b"}),
    ("csv", {"seed": 3, "max_reject_fraction": 0}, {"seed": "3", "max_reject_fraction": "0"}),
    ("csv", {"exclude": ["x", "y"]}, {"exclude": ("x", "y")}),
    ("csv", {"input": Path("x/y")}, {"input": "x/y"}),
    ("images", {"coco": {"train": Path("a.json")}}, {"coco": ["train=a.json"]}),
    ("images", {"input": None, "manifest": [Path("m.csv")]}, {"input": None, "manifest": ["m.csv"]}),
    ("images", {"resize": (224, 200)}, {"resize": "224x200"}),
    ("images", {"image_bands": [4, 3, 2], "image_format": "png"}, {"image_bands": "4,3,2", "image_format": "png"}),
    ("images", {"split_lists": {"test": Path("t.txt")}}, {"split_lists": ["test=t.txt"]}),
    ("arrays", {"shape": (64, 64), "dtype": "uint8"}, {"shape": "64,64", "dtype": "uint8"}),
    ("arrays", {"shape": 64, "dtype": "uint8"}, {"shape": "64", "dtype": "uint8"}),
    ("reshard", {"input": {"train": "a*", "test": Path("b")}}, {"input": ["train=a*", "test=b"]}),
    ("text", {"input": {"de": "a", "en": "b"}}, {"input": ["de=a", "en=b"]}),
    ("parquet", {"image": ["a", "b"]}, {"image": "a,b"}),
]


@pytest.mark.parametrize(("command", "values", "texts"), VALUES)
def test_python_values_mean_what_texts_mean(
    command: str, values: dict[str, object], texts: dict[str, object], jobs: Jobs
) -> None:
    jobs.write({"../t.txt": "a.png"})  # which a configuration reads
    where = {"input": "in", "output": Path("out"), "name": "d"}
    _, config = convert.make_config(command, where | values)
    _, expected = convert.make_config(command, where | texts)
    assert config == expected
    _, default = convert.make_config(command, where | dict.fromkeys(values.keys() & {"input"}, "in"))
    assert config != default


def test_types_of_options_are_those_of_the_flags() -> None:
    """If not: `python -m tests.support.typed_api`."""
    assert ast.dump(ast.parse(typed_api.STUB.read_text())) == ast.dump(ast.parse(typed_api.stub()))


def test_a_plan_is_the_text_of_a_dry_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = rows(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    where: dict[str, Any] = {"input": source, "output": tmp_path / "out", "name": "d"}
    shown = run("csv", *(word for name, value in where.items() for word in (f"--{name}", value)), "--dry_run")
    assert f"{shardmill.plan('csv', **where)!r}\n" == shown.out
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("command", "options", "sentence"),
    [
        ("cvs", {}, "^unknown command 'cvs'"),
        ("csv", {}, "^--input x: "),
        ("csv", {"inptu": "y"}, "^unknown option 'inptu'; did you mean input\\?$"),
        ("csv", {"output": None}, "^--output is required$"),
        ("csv", {"balance": "byte"}, "^--balance byte: expected one of"),
        ("csv", {"splits": {"train": 0.5}}, "^--splits: the fractions add up to 0.5; expected 1$"),
        ("parquet", {"delimiter": ";"}, "^unknown option 'delimiter'"),
        ("images", {"image_format": "gif"}, "^--image_format gif: expected"),
    ],
)
def test_values_that_did_not_come_from_a_command_line_are_checked_as_well(
    command: str, options: dict[str, Any], sentence: str
) -> None:
    where = {"input": "x", "output": "y", "name": "d", **options}
    with pytest.raises(UserError, match=sentence):
        convert.plan(command, **{name: value for name, value in where.items() if value is not None})


def test_a_cluster_s_job_keeps_its_version_when_its_launcher_is_interrupted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run as on a cluster whose workers outlive the launcher."""
    source = rows(tmp_path / "in")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "has_local_workers", lambda options: False)
        patch.setattr(launch, "run_pipeline", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"goes on, .*; 1\.0\.0 stays its own until it has written"):
            shardmill.convert("csv", input=source, output=tmp_path / "out", name="d")

    owner = lease.read_holder(str(tmp_path / "out/d/1.0.0"))
    assert owner is not None
    assert (owner.detached, owner.seconds) == (True, lease.DETACHED_LEASE_SECONDS)


def test_failures_are_raised(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        shardmill.convert("csv", input=str(tmp_path / "gone"), output=str(tmp_path / "out"), name="d")

    source = write_files(tmp_path / "in", {"cat/1.jpg": b"no"})
    with pytest.raises(JobError, match="nothing was published"):
        shardmill.convert("images", input=str(source), output=str(tmp_path / "out"), name="d")
    assert not (tmp_path / "out/d/1.0.0").exists()


def test_text_is_read_by_files(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.txt": b"one\ntwo\n", "b.txt": b"three\n"})
    published = shardmill.convert("text", input=source, output=tmp_path / "out", name="files", record="file")
    assert published.splits == {"train": 2}


TEXT = "Traceback\n  File\nshardmill.errors.UserError: of a step before\n\nRuntimeError: bundle failed\n"
NOT_THERE = "no 'a [while running 'b'] c' is there"
TFT = (
    'ValueError: An error occurred while trying to apply the transformation: "Graph execution error: Detected'
    " at node assert defined at (most recent call last): <stack traces unavailable> assertion failed: [no]"
    ' [[{{node assert}}]] [Op:f]". Batch instances: pyarrow.RecordBatch secret: [[1]], Fetching the values'
)
ANALYZE, CANNOT = "AnalyzeModule/Analyze/Apply", "--module_file: TensorFlow Transform cannot analyze the examples: "


@pytest.mark.parametrize(
    ("error", "failure", "kind", "sentence"),
    [
        *((TEXT, Failure("Layout", kind.__name__, NOT_THERE), kind, NOT_THERE) for kind in ERRORS_BY_NAME.values()),
        *(
            (TEXT, Failure("Step", kind, "x"), JobError, "the job failed in step Step: x")
            for kind in ("Exception", "SystemExit", "KINDS")
        ),
        (
            TEXT,
            Failure("Write/Shard", "", "OSError: full"),
            JobError,
            "the job failed in step Write/Shard: OSError: full",
        ),
        # What TFT says of an analysis is told without the examples
        (TEXT, Failure(ANALYZE, "", TFT), JobError, f"{CANNOT}assertion failed: [no]"),
        (TEXT, Failure(ANALYZE, "", "ValueError: no"), JobError, f"{CANNOT}ValueError: no"),
        (TEXT, Failure(ANALYZE, "", f"ValueError: {'x' * 400}"), JobError, f"{CANNOT}ValueError: {'x' * 287}…"),
        # Without a report the runner has the word
        ("", None, JobError, "the job failed: RuntimeError"),
        ("Traceback\n  File\nOSError: disk full\n\n", None, JobError, "the job failed: OSError: disk full"),
        (TEXT, None, JobError, "the job failed: RuntimeError: bundle failed"),
    ],
)
def test_what_is_raised(error: str, failure: Failure | None, kind: type[Exception], sentence: str) -> None:
    raised = error_to_raise(RuntimeError(error), failure)

    assert (type(raised), str(raised)) == (kind, sentence)


def test_the_sentence_is_that_before_beam_wrote_behind_it() -> None:
    first, second = UserError("a [while running 'b'] c"), UserError("a [while running 'b'] c [in other words]")
    second.__context__ = first
    first.__context__ = JobError("dealt with")

    assert error_to_raise(second, None) is first


def test_an_error_of_ours_that_was_dealt_with_is_not_shown() -> None:
    error = OSError("disk full")
    error.__context__ = UserError("no such column")

    assert str(error_to_raise(error, None)) == "the job failed: disk full"


def raise_(error: Exception) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail


def run(function: Callable[[Any], Any], *flags: str) -> None:
    def build(pipeline: beam.Pipeline, _: str | None) -> None:
        _ = pipeline | beam.Create([1]) | "Step" >> beam.Map(function)

    launch.run_pipeline(build, PipelineOptions(list(flags)), "test")


FIRST_BEGUN, SECOND_BEGUN, FIRST_ENDED = (threading.Event() for _ in range(3))
SEEN: list[Any] = []


def first_step(_: object) -> None:
    FIRST_BEGUN.set()
    SECOND_BEGUN.wait(60)


def second_step(_: object) -> None:
    SECOND_BEGUN.set()
    FIRST_ENDED.wait(60)
    SEEN.extend([logging.getLogger("apache_beam").level, patience._withdrawn.is_set()])


def test_jobs_that_overlap_share_the_settings_of_the_process() -> None:
    """The job that ends first leaves the other one its settings; the last one restores those of before."""

    def settings() -> list[Any]:
        hooks = threading.excepthook, core.get_signature, userstate.get_dofn_specs
        return [*hooks, logging.getLogger("apache_beam").level, patience._withdrawn.is_set()]

    before = settings()
    first, second = (threading.Thread(target=run, args=(step,), daemon=True) for step in (first_step, second_step))
    first.start()
    FIRST_BEGUN.wait(60)
    second.start()
    first.join()
    FIRST_ENDED.set()
    second.join()

    assert SEEN == [logging.CRITICAL, False]
    assert settings() == before


def test_a_job_runs_to_its_end(tmp_path: Path) -> None:
    run(lambda value: (tmp_path / "done").write_text(str(value)))

    assert (tmp_path / "done").read_text() == "1"


@pytest.mark.parametrize("kind", [UserError, JobError])
@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_our_errors_arrive_as_their_sentence(kind: type[Exception], mode: str) -> None:
    sentence = "60 of 61: 'it's'; [why]: UserError: a folder called 'a [while running 'b'] c' is not there"
    with pytest.raises(kind) as caught:
        run(raise_(kind(sentence)), "--direct_running_mode", mode)
    assert str(caught.value) == sentence


def test_other_errors_name_the_step_and_the_cause() -> None:
    with pytest.raises(JobError, match=r"^the job failed in step Step.*No space left on device[^\n]*$") as caught:
        run(raise_(OSError(28, "No space left on device")))
    assert "while running" not in str(caught.value)


@pytest.mark.parametrize("width", [45, 60, 79, 80, 100, 130])
@pytest.mark.parametrize("total", [1_000, None])
def test_the_time_left_fits_the_terminal(width: int, total: int | None) -> None:
    """And the time before the examples are counted."""
    clock, out, rate = [0.0], io.StringIO(), "234,567 examples/s, 12,345 MB/s"
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    bar = Progress(console=console, expand=True, get_time=lambda: clock[0], speed_estimate_period=1e9)
    bar.columns = progress_columns(width)
    task = bar.add_task("digits_in_folders: encoding, 9 records", total=total, rate=rate if total else "")
    for done in range(501 if total else 1):
        clock[0] = 30.0 * done
        bar.update(task, completed=done)
    console.print(bar.make_tasks_table(bar.tasks))
    (shown,) = out.getvalue().splitlines()
    assert len(shown) <= width
    assert shown.startswith("⠋ digits_in_folder")
    if total:
        assert shown.endswith(" 50% 4:10:00 left 4:10:00")
        assert (rate in shown) == (width >= 80)
    else:
        assert "0% 0:00:00" in shown


def test_the_progress_folder_is_there_while_it_runs_and_gone_after() -> None:
    folders: list[str] = []

    def build(pipeline: beam.Pipeline, folder: str | None) -> None:
        assert folder is not None
        assert os.path.isdir(folder)
        folders.append(folder)
        _ = pipeline | beam.Create([folder]) | beam.Map(os.listdir)

    before = set(glob.glob(f"{tempfile.gettempdir()}/shardmill-progress-*"))
    launch.run_pipeline(build, PipelineOptions([]), "test")

    assert not os.path.exists(folders[0])
    assert folders[0] not in before


def test_multi_threading_never_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="multi_threading loses records"):
        run(lambda _: (tmp_path / "done").touch(), "--direct_running_mode", "multi_threading")
    assert not (tmp_path / "done").exists()


def test_options_that_beam_refuses() -> None:
    sentence = r"^Beam refuses the options of the run: .* process_command is required for .* PROCESS\.$"
    with pytest.raises(UserError, match=sentence):
        run(lambda element: element, "--runner", "FlinkRunner", "--environment_type", "PROCESS")


KEPT = beam.DoFn.StateParam(userstate.ReadModifyWriteStateSpec("count", VarIntCoder()))


class Told:
    def one(self, first: int, second: str = "") -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the arguments that Beam's own function gets."""
    calls: list[Any] = []

    def ask(function: Any) -> inspect.Signature:
        calls.append(function)
        return inspect.signature(function)

    for module in (core, decorators):
        monkeypatch.setattr(module, "get_signature", ask)
    return calls


def test_a_method_is_asked_about_once(asked: list[Any]) -> None:
    before = core.get_signature
    with cache_signatures():
        found = [module.get_signature(Told().one) for module in (core, decorators) for _ in range(3)]
        with cache_signatures():  # of a job beside this one
            found.append(core.get_signature(Told().one))
        found.append(core.get_signature(Told().one))
    assert {str(one) for one in found} == {"(first: int, second: str = '') -> None"}
    assert len(asked) == 1
    assert core.get_signature is decorators.get_signature is before


def test_functions_are_asked_about_each_time(asked: list[Any]) -> None:
    """One may be made anew under a name that is known; a failure leaves Beam as it was."""
    before = core.get_signature
    with cache_signatures():
        for function in (lambda first: first, lambda second: second, len, Told):
            core.get_signature(function)
    assert len(asked) == 4
    with pytest.raises(KeyError), cache_signatures():
        raise KeyError
    assert core.get_signature is before


class Keeping(beam.DoFn):
    def process(self, element: Any, kept: Any = KEPT) -> None: ...


class Doing(beam.DoFn):
    """An object may hold a bound method of another object of its class, which keeps that one alive."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def process(self, element: Any) -> None: ...


class Shadowing(Keeping):
    """An object may hide a method of its class."""

    def __init__(self, hides: bool) -> None:
        if hides:
            self.process: Any = len


def test_what_dofns_of_the_same_methods_keep_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    before = userstate.get_dofn_specs

    def ask(dofn: beam.DoFn) -> Any:
        calls.append(dofn)
        return before(dofn)

    monkeypatch.setattr(userstate, "get_dofn_specs", ask)

    def functions() -> list[beam.DoFn]:
        plain = [Doing(), Doing(Keeping().process), Shadowing(False), Shadowing(True)]
        return [*plain, *(ReportingFn(function, "step", "unused") for function in plain)]

    one = functions()
    expected = [userstate.is_stateful_dofn(function) for function in one]
    assert expected[:3] == [False, True, True]
    del calls[:]
    with cache_signatures():
        found = [[userstate.is_stateful_dofn(function) for function in [*one, *functions()]] for _ in range(3)]

    assert found == [expected * 2] * 3
    assert calls == one


def test_beam_neither_parses_functions_nor_takes_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(element: int) -> Any:
        if element:
            return [element]
        yield element

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    before = core._check_fn_use_yield_and_return, decorators.IOTypeHints._make_origin
    assert core._check_fn_use_yield_and_return(both)
    monkeypatch.setattr(decorators.traceback, "format_stack", refuse)
    with cache_signatures():
        assert not core._check_fn_use_yield_and_return(both)
        hints = beam.FlatMap(both).with_output_types(int).get_type_hints()
    assert (hints.simple_output_type(""), hints.origin) == (int, [])
    assert (core._check_fn_use_yield_and_return, decorators.IOTypeHints._make_origin) == before
