"""Ctrl-C and SIGTERM; nothing here needs Beam, for a night with nothing to do."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM: what preemption, Slurm and Kubernetes send before they kill."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise Terminated in the main thread, once; a second one ends the process as ever."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def interrupt(cause: BaseException | None) -> NoReturn:
    """End this process at once, with the status of its cause: a local runner's threads have no way to stop."""
    os._exit(143 if isinstance(cause, Terminated) else 130)
