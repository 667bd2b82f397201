"""Files whose closing fails, as with a quota on NFS: each error names its file, and nothing wrong is published."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import REPOSITORY

pytestmark = pytest.mark.slow

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int close(int fd) {
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int is_read = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
    int fails = readlink(link, path, sizeof path - 1) > 0 && !is_read && strstr(path, getenv("CLOSE_FAILS"));
    int found = ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
    return fails ? (errno = EDQUOT, -1) : found;
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that lets closing a written file fail whose path contains $CLOSE_FAILS."""
    source = tmp_path_factory.mktemp("shim") / "close.c"
    source.write_text(SHIM)
    built = source.with_suffix(".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


@pytest.mark.parametrize(
    ("part", "status", "is_published"),
    [
        *((part, 1, False) for part in ("n-train.tfrecord", "/run-", "contents/", "positions/", "manifest.json")),
        *((part, 1, False) for part in ("stats.json", "train.npy", "_RECORD", "_PUBLISHING", "_SUCCESS")),
        ("LATEST.", 1, True),
        ("1.0.0.html", 0, True),  # as the next one a warning
        ("1.0.0.json", 0, True),
        ("LOCK", 0, True),  # of whose text nothing depends any more
        ("shardmill-progress-", 0, True),
        ("(deleted)", 1, False),  # temporary files without a name
    ],
)
def test_the_error_names_its_file(tmp_path: Path, shim: Path, part: str, status: int, is_published: bool) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    words = ["csv", "--input", "a.csv", "--output", "sets", "--name", "n", "--index"]
    variables = {"PYTHONPATH": str(REPOSITORY / "src"), "LD_PRELOAD": str(shim), "CLOSE_FAILS": part, "TMPDIR": "/tmp"}
    command = [sys.executable, "-m", "shardmill", *words]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    assert (done.returncode, (tmp_path / "sets/n/1.0.0/_SUCCESS").exists()) == (status, is_published), done.stderr
    assert "Traceback" not in done.stderr
    if part not in ("LOCK", "shardmill-progress-"):
        assert "Disk quota exceeded" in done.stderr
        assert ("/tmp" if part == "(deleted)" else part) in done.stderr
        assert "[Errno" not in done.stderr
