"""How far a job is: counters of workers, and what a log sees of them."""

import threading
from pathlib import Path

import pytest

from shardmill.pipelines.jobs import launch as display
from shardmill.transforms.workers.running import Progress, ProgressReporter, read_progress, report_plan


def test_counts_of_all_workers_add_up(tmp_path: Path) -> None:
    report_plan(str(tmp_path), 100, 5000)
    together = threading.Barrier(3)  # so that no thread gets the identifier of one that has ended

    def work() -> None:
        reporter = ProgressReporter(str(tmp_path))
        for _ in range(10):
            reporter.add(2, 30)
        reporter.flush()
        together.wait(10)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read_progress(str(tmp_path)) == Progress(60, 900, 100, 5000)


def test_nothing_reported_yet(tmp_path: Path) -> None:
    assert read_progress(str(tmp_path)) == Progress()


def test_files_under_way_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "1-2.json.tmp").write_text('{"examples": ')

    assert read_progress(str(tmp_path)) == Progress()


@pytest.mark.parametrize(
    ("counts", "phase", "line"),
    [
        (Progress(), "listing and planning", "flowers: 7 s, listing and planning"),
        (Progress(0, 0, 1000, 10**6), "writing", "flowers: 7 s, writing 0 of 1,000 examples"),
        (
            Progress(500, 10**7, 1000, 10**8),
            "writing",
            "flowers: 7 s, writing 500 of 1,000 examples (100 examples/s, 2 MB/s, 5 s left)",
        ),
        (
            Progress(1000, 10**8, 1000, 10**8),
            "publishing",
            "flowers: 7 s, publishing 1,000 of 1,000 examples (200 examples/s, 20 MB/s, 0 s left)",
        ),
    ],
)
def test_lines_of_a_log(counts: Progress, phase: str, line: str) -> None:
    assert display.progress_phase(counts) == phase
    assert display.progress_line("flowers", counts, 7.2, 5.0) == line


def test_no_rate_before_there_is_one() -> None:
    assert display.progress_rate(Progress(), 5.0) == ""
    assert display.progress_rate(Progress(5, 5), 0.0) == ""
    assert display.progress_line("f", Progress(5, 5, 10, 10), 1.0, 0.0) == "f: 1 s, writing 5 of 10 examples"


def test_a_display_without_a_terminal_draws_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with display.ProgressDisplay(str(tmp_path), "flowers") as shown:
        report_plan(str(tmp_path), 10, 100)
        shown.update()

    assert capsys.readouterr().err == ""
