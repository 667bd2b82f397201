"""A PostgreSQL server of its own in a temporary folder: Debian's package postgresql."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

USER = "postgres"  # of the package, for the server does not run as root; and its superuser
_INSTALLED = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Postgres:
    """A running server, which asks its superuser for a password."""

    port: int
    password: str

    def url(self, password: str) -> str:
        """The URL for SQLAlchemy, with a password as it is, or `${NAME}`."""
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/postgres"

    def connect(self) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.url(quote(self.password, safe="")), autocommit=True)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements, and return the rows of the last one."""
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def serve(password: str) -> Iterator[Postgres]:
    """Start a server on a free port, and end it and delete its files at last."""
    programs = max(_INSTALLED.glob("*/bin"), key=lambda path: float(path.parent.name))
    folder = Path(tempfile.mkdtemp(prefix="shardmill-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, USER, USER)
    (folder / "password").write_text(password)
    data = folder / "data"
    _run([programs / "initdb", "--auth=scram-sha-256", f"--pwfile={folder}/password", "-U", USER, "--no-sync", data])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    control = [programs / "pg_ctl", "-D", data, "-l", folder / "log"]
    _run([*control, "-w", "-o", f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off", "start"])
    try:
        yield Postgres(port, password)
    finally:
        _run([*control, "-m", "immediate", "stop"])
        shutil.rmtree(folder)


def _run(words: Sequence[object]) -> None:
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"] if os.geteuid() == 0 else []
    subprocess.run([*as_user, *map(str, words)], check=True, cwd="/", stdout=subprocess.DEVNULL)
