"""A clock that jumps ahead and back while jobs run."""

import time
from itertools import cycle

import pytest

from tests.support.command import Run, image_tree, tree_bytes
from tests.support.jobs import Jobs

pytestmark = pytest.mark.slow  # threads of Beam that wait for a time spin as it jumps

_FILES = {"rows.csv": b"x,y\n1,a\n2,b\n", "lines.txt": b"a\nb\n"}
_JUMPS = (-(10**9), 10**7, 0, 10**9, -3600)  # seconds, about 30 years at most


@pytest.mark.parametrize("line", ["csv --input in/rows.csv", "text --input in/lines.txt", "images --input in/pictures"])
def test_a_clock_that_jumps_changes_nothing(jobs: Jobs, run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Neither the bytes of a job nor what a second night finds."""
    jobs.write(_FILES | {f"pictures/{name}": content for name, content in image_tree("ab", 3).items()})
    before = tree_bytes(jobs.build(line).directory)
    jobs.run(line, "--write_recipe", "n.yaml", "--output", "nights")
    now, jumps = time.time, cycle(_JUMPS)
    monkeypatch.setattr(time, "time", lambda: now() + next(jumps))

    assert tree_bytes(jobs.build(f"{line} --output again").directory) == before
    first, second = run("rebuild", "n.yaml"), run("rebuild", "n.yaml")
    assert (first.status, second.status) == (0, 0), first.err + second.err
    assert tree_bytes(jobs.folder / "nights/n/1.0.0") == before
    assert "n: unchanged since 1.0.0" in second.out
