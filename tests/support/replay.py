"""Every bundle of a job is run twice, as clusters do that restart, recompute or speculate; either result is kept."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import core
from apache_beam.transforms.window import WindowedValue

from shardmill.transforms.workers.elements import in_global_window


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
