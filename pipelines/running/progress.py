"""What a terminal, or a log, sees of a job while it runs."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from shardmill.pipelines.reports.log import is_json, say_progress
from shardmill.transforms.workers.progress import Progress as Counts
from shardmill.transforms.workers.progress import read_progress

_PLAIN_INTERVAL = 10.0  # seconds between lines where there is no terminal


class ProgressDisplay:
    """A live bar with rate and time left on a terminal; a line now and then elsewhere. Draws on stderr."""

    def __init__(self, folder: str | None, title: str) -> None:
        self._folder, self._title = folder, title
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal and not is_json()
        self._started = self._last_line = time.monotonic()
        self._writing_since: float | None = None
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )

    def __enter__(self) -> "ProgressDisplay":
        if self._live:
            self._task = self._bar.add_task(f"{self._title}: listing and planning", total=None, rate="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._bar.stop()

    def update(self) -> None:
        """Show what has been done by now."""
        if self._folder is None:
            self._update_remote()
            return
        counts = read_progress(self._folder)
        now = time.monotonic()
        if counts.planned_examples and self._writing_since is None:
            self._writing_since = now
        if self._live:
            self._bar.update(
                self._task,
                description=f"{self._title}: {phase(counts)}",
                total=counts.planned_examples or None,
                completed=counts.examples,
                rate=rate(counts, now - (self._writing_since or now)),
            )
        elif now - self._last_line >= _PLAIN_INTERVAL:
            self._last_line = now
            say_progress(line(self._title, counts, now - self._started, now - (self._writing_since or now)))

    def _update_remote(self) -> None:
        """Workers elsewhere report to their runner, whose own pages show it."""
        now = time.monotonic()
        if self._live:
            self._bar.update(self._task, description=f"{self._title}: running")
        elif now - self._last_line >= _PLAIN_INTERVAL:
            self._last_line = now
            say_progress(f"{self._title}: {now - self._started:.0f} s, running")


def phase(counts: Counts) -> str:
    """What the job is doing."""
    if not counts.planned_examples:
        return f"encoding, {counts.staged:,} records" if counts.staged else "listing and planning"
    return "writing" if counts.examples < counts.planned_examples else "publishing"


def rate(counts: Counts, seconds: float) -> str:
    """Examples and megabytes a second."""
    if not counts.examples or seconds <= 0:
        return ""
    return f"{counts.examples / seconds:,.0f} examples/s, {counts.size_bytes / seconds / 1e6:,.0f} MB/s"


def line(title: str, counts: Counts, elapsed: float, writing: float) -> str:
    """One line of a log."""
    text = f"{title}: {elapsed:.0f} s, {phase(counts)}"
    if not counts.planned_examples:
        return text
    text += f" {counts.examples:,} of {counts.planned_examples:,} examples"
    if counts.examples and writing > 0:
        left = (counts.planned_examples - counts.examples) * writing / counts.examples
        text += f" ({rate(counts, writing)}, {left:.0f} s left)"
    return text
