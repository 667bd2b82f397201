"""What is asked of a store by whoever ends after an error or Ctrl-C: for seconds, and not once it has not answered.

Clients of stores repeat requests for minutes, which is right while there is work to lose. Who only clears up is not to
be held up by a store that is gone: what is left there the next run deletes. Nothing here needs Beam.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from shardmill.transforms.stores.transient import GivenUpError

SECONDS = 10.0  # for one request, the client's own attempts at it included

Result = TypeVar("Result")
_thread = threading.local()  # steps of a job that has ended may still be under way in others
_gone = False  # whether a store has not answered, nor since


@contextmanager
def briefly() -> Iterator[None]:
    """Within this block its thread asks stores briefly."""
    before = is_brief()
    _thread.is_brief = True
    try:
        yield
    finally:
        _thread.is_brief = before


def is_brief() -> bool:
    """Whether this thread does."""
    return getattr(_thread, "is_brief", False)


def answered() -> None:
    """A store has done what it was asked for: if one was gone, it may be there again."""
    global _gone
    _gone = False


def ask_briefly(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call `function` in a thread that nobody waits for longer than some seconds, and not at all once that was in vain.

    Raises:
      GivenUpError: it has not ended.
      Exception: whatever `function` raises.
    """
    global _gone
    if _gone:
        raise GivenUpError("the store no longer answers")
    ended: list[Callable[[], Result]] = []

    def call() -> None:
        try:
            result = function(*arguments)
            ended.append(lambda: result)
        except BaseException as error:  # handed to the thread that asks, whatever it is
            ended.append(_raising(error))

    thread = threading.Thread(target=call, name="shardmill-brief", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not ended:
        _gone = True
        raise GivenUpError(f"the store has not answered for {SECONDS:g} seconds")
    return ended[0]()


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again
