"""Moments at which a command in a process of its own stops until a test lets it go on."""

import importlib
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait_for(sign: Path, is_alive: Callable[[], bool]) -> None:
    """Wait for a sign as long as the process that is to give it is alive."""
    while not sign.exists():
        assert is_alive() or sign.exists(), f"{sign.name}: the process that was to say so has ended"
        time.sleep(0.0005)


def stop_at(module: str, name: str, reached: Path, go_on: Path) -> None:
    """Let this process stop each time it calls a function, until another lets it go on."""
    place = importlib.import_module(module)
    then = getattr(place, name)
    tests = multiprocessing.parent_process()
    assert tests is not None

    def stop(*arguments: Any, **more: Any) -> Any:
        reached.touch()
        wait_for(go_on, tests.is_alive)
        return then(*arguments, **more)

    setattr(place, name, stop)
