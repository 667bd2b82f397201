"""Why a step fails, in a file that the launcher reads: from another process a runner brings Python's text of an error,
if anything."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from traceback import format_exception_only
from typing import Any

import apache_beam as beam

from shardmill.errors import JobError, UserError
from shardmill.metadata.json_values import parse_json
from shardmill.transforms.stores import patience, storage
from shardmill.transforms.stores.error_text import sentence_of

FILE = "failure"  # in the folder that launcher and workers share


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that left a step.

    Attributes:
      step: the step's label, with those of the steps around it.
      kind: the name of a class in shardmill.errors; "" for any other error.
      sentence: what the error says; of any other, its type too.
    """

    step: str
    kind: str
    sentence: str

    @classmethod
    def of(cls, step: str, error: Exception) -> "Failure":
        """What `error`, raised in `step`, comes to."""
        if isinstance(error, (UserError, JobError)):
            return cls(step, type(error).__name__, str(error))
        if isinstance(error, MemoryError):
            return cls(
                step, "", "no memory was left in a worker; give fewer --threads, or workers that have more of it"
            )
        if isinstance(error, OSError) and error.filename:
            return cls(step, "", sentence_of(error))
        return cls(step, "", " ".join("".join(format_exception_only(error)).split()))


class ReportingFn(beam.DoFn):
    """Does what `inner` does, and writes down with which error it ends.

    An attempt that fails after another overwrites its report, so that the last one is shown. What other attempts are
    cancelled with is not why a job fails.
    """

    def __init__(self, inner: beam.DoFn, step: str, path: str, is_first: bool = False) -> None:
        self._inner, self._step, self._path, self._is_first = inner, step, path, is_first

    def __getattribute__(self, name: str) -> Any:
        # As Beam's own wrapper of a DoFn does it: whatever is asked of it is asked of the one inside. Beam asks for
        # all that there is, thousands of times a job.
        if name in ReportingFn.__dict__ or name.startswith("__"):
            return object.__getattribute__(self, name)
        own = object.__getattribute__(self, "__dict__")
        return own[name] if name in own else getattr(own["_inner"], name)

    def _inspect_process(self) -> Any:
        """What Beam takes for the parameters of `process`: it knows by their defaults what to pass."""
        return self._inner.get_function_arguments("process")

    def setup(self) -> None:
        """As `inner` does; whoever does steps of a job is patient with stores."""
        patience.grant()
        with self._reporting():
            self._inner.setup()

    def process(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        """As `inner` does; the first step of all says that it has begun."""
        with self._reporting():
            if self._is_first:
                with suppress(OSError):
                    storage.write_text(begun_path(self._path), "", sync=False)
            yield from self._inner.process(*arguments, **named) or ()

    def finish_bundle(self) -> Iterable[Any] | None:
        """As `inner` does."""
        with self._reporting():
            results: Iterable[Any] | None = self._inner.finish_bundle()
            return None if results is None else list(results)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except CancelledError:
            raise
        except Exception as error:
            with suppress(Exception):  # the error itself is what counts, and goes on to the runner
                report(self._path, Failure.of(self._step, error))
            raise


def begun_path(path: str) -> str:
    """The file that is there once the first step of a pipeline that reports to `path` has begun."""
    return f"{path}-begun"


def report(path: str, failure: Failure) -> None:
    """Write a failure to `path`, over an earlier one."""
    content = {"step": failure.step, "kind": failure.kind, "sentence": failure.sentence}
    # Workers that fail at the same time write side by side
    storage.write_text(path, json.dumps(content), f"{path}-{uuid.uuid4().hex}", sync=False)


def reported(path: str) -> Failure | None:
    """The failure that stands at `path`; None where there is none, or none that can be read."""
    try:
        content = parse_json(storage.read_bytes(path))
        return Failure(content["step"].text(), content["kind"].text(), content["sentence"].text())
    except (OSError, ValueError):
        return None


def report_failures(pipeline: beam.Pipeline, path: str, says_begun: bool = False) -> None:
    """Have every step of a pipeline that is built, and not run yet, report to `path` the error that it ends with; the
    first one also that it has begun, if `says_begun`."""
    pipeline.visit(_Wrapping(lambda inner, step, is_first: ReportingFn(inner, step, path, is_first and says_begun)))


class _Wrapping(beam.pipeline.PipelineVisitor):
    """Puts a function around that of each ParDo, but for those that split their elements, which are Beam's own."""

    def __init__(self, wrap: Callable[[beam.DoFn, str, bool], beam.DoFn]) -> None:
        self._wrap, self._is_first = wrap, True

    def visit_transform(self, node: Any) -> None:
        step = node.transform
        if isinstance(step, beam.ParDo) and not isinstance(step.fn, ReportingFn) and not step.get_restriction_coder():
            step.fn = self._wrap(step.fn, node.full_label, self._is_first)
            self._is_first = False
