"""TensorFlow without its words about processors, which nobody asked for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from shardmill.transforms.stores.together import hold_shared


@contextmanager
def quiet_import() -> Iterator[None]:
    """Import TensorFlow inside: it looks for no GPU, and what it writes to the standard error as it begins, whatever it
    is told of levels, is not seen. Python's errors are."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with hold_shared("stderr", _no_stderr):
        yield


@contextmanager
def _no_stderr() -> Iterator[None]:
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
