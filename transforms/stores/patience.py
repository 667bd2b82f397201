"""How long an operation on a store is repeated where the store may work again in a minute.

Clients of stores repeat requests for a minute or two; a store that is overloaded, or a network that is being mended,
may take longer, and a step that fails then is done all over by the runner, four times at most on most of them. So
within the steps of a job an operation is repeated for ten minutes. Elsewhere it is not: who types a wrong address wants
to know.
"""

import random
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores.brief import answered
from shardmill.transforms.stores.process_options import process_options
from shardmill.transforms.stores.transient import GivenUpError, is_transient, told_of

_SECONDS = 600
_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 30.0  # waited before operations are repeated; half of that in the worst of luck

Result = TypeVar("Result")
_withdrawn = threading.Event()  # in this process: nobody waits, and whoever waits stops
_withdrawn.set()


class PatienceOptions(PipelineOptions):
    """--store_patience; it travels to the workers as Beam's own options do."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--store_patience",
            type=_seconds,
            default=_SECONDS,
            help="seconds for which steps repeat what an object store refuses because it is overloaded or out of reach",
        )


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"expected seconds, 0 or more, not {text!r}")
    return int(text)


def grant(granted: bool = True) -> None:
    """Have this process, which does steps of a job, be patient from now on, or no more."""
    if granted:
        _withdrawn.clear()
    else:
        _withdrawn.set()


@contextmanager
def withdrawn_at_end() -> Iterator[None]:
    """Withdraw on leaving what steps were granted within."""
    try:
        yield
    finally:
        grant(False)


def patiently(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call `function`, which may be called any number of times, until it fails for another reason than a store that may
    work again in a minute.

    Raises:
      GivenUpError: the store did not for as long as --store_patience says.
      Exception: whatever `function` raises else.
    """
    until: float | None = None
    wait = _FIRST_SECONDS
    while True:
        try:
            result = function(*arguments)
            answered()
            return result
        except Exception as error:
            if _withdrawn.is_set() or not is_transient(error):
                raise
            patience = process_options().view_as(PatienceOptions).store_patience
            until = time.monotonic() + patience if until is None else until
            if time.monotonic() + wait > until:
                if not patience:
                    raise
                raise GivenUpError(f"{told_of(error) or error}; it was tried again for {patience} seconds") from error
            if _withdrawn.wait(random.uniform(wait / 2, wait)):  # the job has ended meanwhile
                raise
        wait = min(2 * wait, _LONGEST_SECONDS)
