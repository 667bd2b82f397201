"""Every route again: steps run twice, of which either result counts; without a C compiler; and the lines below "Read
it" in a job's summary. The bytes are those of one run, and what is printed works for every kind of path."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import core
from apache_beam.transforms.window import WindowedValue

from shardmill.pipelines import cli
from shardmill.transforms.execution import running
from shardmill.transforms.execution.running import report_failures
from shardmill.transforms.workers.elements import in_global_window
from tests.support.command import SOURCE, Run
from tests.support.golden_cases import CASES, DIGESTS, command, digests_in
from tests.support.golden_inputs import write_inputs

pytestmark = pytest.mark.slow

ROUTES = (
    *("images-stratified", "images-transform", "images-masks", "images-near-duplicates", "arrays", "audio"),
    *("csv-label", "csv-transform", "csv-materialize", "csv-sequences", "jsonl", "parquet", "avro", "webdataset"),
    *("text", "text-packed", "reshard", "sql"),
)


@pytest.mark.parametrize("case", ROUTES)
def test_every_bundle_twice(run: Run, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(inputs)
    golden = json.loads(DIGESTS.read_text())[case]
    steps: list[list[str]] = []

    def replayed(pipeline: beam.Pipeline, *arguments: Any, **named: Any) -> None:
        report_failures(pipeline, *arguments, **named)
        replay = Replay(keep)
        pipeline.visit(replay)
        steps.append(replay.steps)

    monkeypatch.setattr(running, "report_failures", replayed)
    starts_tensorflow = case in ("csv-transform", "csv-materialize", "images-transform")
    for keep in (1,) if starts_tensorflow else (0, 1):  # each run of those starts it twice
        output = tmp_path / str(keep)
        result = run(*command(case), "--output", output)
        assert result.status == 0, result.err
        assert digests_in(output) == golden
        assert {path for path in output.rglob("*") if path.is_dir() and not any(path.iterdir())} == set()
    for labels in steps:
        assert {"Layout", "Prepare", "Write", "Publish"} <= {word for label in labels for word in label.split("/")}


@pytest.mark.parametrize("case", sorted({*ROUTES} - {"images-transform", "csv-transform", "csv-materialize"}))
def test_a_limit_of_memory_ends_in_a_sentence(inputs: Path, tmp_path: Path, case: str) -> None:
    """Arrow's allocator took 1 GiB of the addresses that a limit leaves, and its threads aborted the process."""
    words = (*CASES[case], "--max_reject_fraction", "0.9", "--name", "d", "--output")
    variables = {**os.environ, "PYTHONPATH": str(SOURCE)}
    # The second limit is less than what the sentence advises. The first ends every route in the same way
    for kibibytes, status in (("900000", 1), ("1500000", 0))[case not in ("images-stratified", "csv-label", "text") :]:
        output = tmp_path / kibibytes
        job = ["sh", "-c", 'ulimit -v $0; exec "$@"', kibibytes, sys.executable, "-m", "shardmill", *words, str(output)]
        done = subprocess.run(job, cwd=inputs, env=variables, capture_output=True, text=True)
        assert (done.returncode, any(output.rglob("_SUCCESS"))) == (status, not status), done.stderr
        if status:
            expected = "shardmill: error: no memory was left: `ulimit -v` is 900,000; a small job takes 2,000,000\n"
            assert done.stderr == expected


def test_every_command_is_one_of_them() -> None:
    assert {CASES[case][0] for case in ROUTES} == {words[0] for words in CASES.values()}


class ReplayedFn(beam.DoFn):
    """Does what `inner` does, twice a bundle, and emits what came of the first time or of the second."""

    def __init__(self, inner: beam.DoFn, keep: int) -> None:
        self._inner, self._keep = inner, keep

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in ReplayedFn.__dict__ or name in object.__getattribute__(self, "__dict__"):
            return object.__getattribute__(self, name)
        return getattr(self._inner, name)

    def _inspect_process(self) -> Any:
        return self._inner.get_function_arguments("process")

    def start_bundle(self) -> None:
        """Nothing has come."""
        self._elements: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def process(self, *arguments: Any, **named: Any) -> None:
        """Keep the element for the bundle's end."""
        self._elements.append((arguments, named))

    def finish_bundle(self) -> Iterator[Any]:
        """Run the bundle, and run it again."""
        results = [self._run() for _ in range(2)]
        return iter(results[self._keep])

    def _run(self) -> list[Any]:
        self._inner.start_bundle()
        out: list[Any] = []
        for arguments, named in self._elements:
            out += self._inner.process(*arguments, **named) or ()
        out += self._inner.finish_bundle() or ()
        return [item if _is_windowed(item) else in_global_window(item) for item in out]


def _is_windowed(item: Any) -> bool:
    return isinstance(item.value if isinstance(item, beam.pvalue.TaggedOutput) else item, WindowedValue)


class Replay(beam.pipeline.PipelineVisitor):
    """Has each step of ours in a pipeline that is built replayed; those inside Beam's own transforms are left.

    Attributes:
      keep: 0 for the results of the first run, 1 for those of the second.
      steps: the labels of those that are replayed.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self.steps: list[str] = []

    def visit_transform(self, node: Any) -> None:
        """Put a ReplayedFn around the function of a ParDo."""
        step, around = node.transform, node.parent
        while around is not None and isinstance(around.transform, core._MultiParDo):  # of a step with several outputs
            around = around.parent
        is_beams = around is not None and type(around.transform).__module__.startswith("apache_beam")
        if isinstance(step, beam.ParDo) and not is_beams:
            step.fn = ReplayedFn(step.fn, self._keep)
            self.steps.append(node.full_label)


def printed_readers(summary: str) -> list[list[str]]:
    """Return the code below "Read it:", one piece for each way to read."""
    _, _, code = summary.partition("\nRead it:\n")
    lines = [line for line in code.split("\n\n")[0].splitlines() if line]
    assert lines, summary
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line == "or, without shardmill:":
            pieces.append([])
        else:
            assert line.startswith("  ")
            pieces[-1].append(line.removeprefix("  "))
    return pieces


# Prints the number of examples that printed code yields
COUNT = (
    "print(sum(1 for _ in next(globals()[name] for name in ('records', 'examples', 'dataset') if name in globals())))"
)


# Whose code to read them differs from that of the routes
READ_OTHERWISE = (
    *("images-gzip", "images-file-template", "images-renamed", "images-object-detection", "images-pairs"),
    "images-coco",
    *("images-manifest", "images-manifest-label-lists", "arrays-ragged", "audio-decoded", "csv-labels"),
    *("csv-array-record", "csv-file-template", "text-parallel", "text-files"),
)


@pytest.mark.parametrize("case", [*ROUTES, *READ_OTHERWISE])
def test_every_route(
    case: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(inputs)
    assert cli.main([*command(case), "--output", str(tmp_path / "a b[1]é'")]) == 0
    counts = []
    for piece in printed_readers(capsys.readouterr().out):
        names: dict[str, Any] = {}
        exec("\n".join([*piece, COUNT]), names)
        counts.append(int(capsys.readouterr().out))
    assert min(counts) > 0
    assert len(set(counts)) == 1


REPOSITORY = Path(__file__).parents[3]
UNCOMPILED = (
    *("images", "images-coco", "arrays", "audio", "csv", "csv-sequences", "jsonl", "parquet-images", "avro"),
    *("webdataset", "text", "text-packed", "reshard", "sql"),
)
PROGRAM = """
import json, sys
sys.modules["shardmill._native"] = None  # whose import fails then
from shardmill.data import spans
from tests.support.golden_cases import digests
assert not spans.COMPILED
found = {case: digests(case) for case in sys.argv[1:]}
print(json.dumps(found))
"""


def test_every_route_writes_the_same_bytes(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *UNCOMPILED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    golden = json.loads(DIGESTS.read_text())
    assert json.loads(done.stdout.splitlines()[-1]) == {case: golden[case] for case in UNCOMPILED}
