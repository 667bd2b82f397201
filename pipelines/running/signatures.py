"""Beam asks thousands of times a job for the signatures of the same few methods of its DoFns, which takes half a second
of a job's start-up: while a job runs, each method is asked once.

What is asked and answered stays Beam's own; `get_signature` of apache_beam/typehints/decorators.py, 2.77, has no public
way to be asked less.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Signature
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.transforms import core
from apache_beam.typehints import decorators

_MODULES: tuple[Any, ...] = (decorators, core)  # where `get_signature` is looked up
_KNOWN: "WeakKeyDictionary[FunctionType, Signature]" = WeakKeyDictionary()


@contextmanager
def remembered_signatures() -> Iterator[None]:
    """Let Beam remember the signatures of bound methods, and leave it as it was."""
    asked = [module.get_signature for module in _MODULES]
    if any(isinstance(ask, _Remembering) for ask in asked):  # by a job that runs beside this one
        yield
        return
    for module, ask in zip(_MODULES, asked, strict=True):
        module.get_signature = _Remembering(ask)
    try:
        yield
    finally:
        for module, ask in zip(_MODULES, asked, strict=True):
            module.get_signature = ask


class _Remembering:
    """Asks for the signature of a function once, however many bound methods there are of it."""

    def __init__(self, ask: Callable[[Any], Signature]) -> None:
        self._ask = ask

    def __call__(self, function: Any) -> Signature:
        if not isinstance(function, MethodType) or not isinstance(function.__func__, FunctionType):
            return self._ask(function)
        found = _KNOWN.get(function.__func__)
        if found is None:
            found = _KNOWN[function.__func__] = self._ask(function)
        return found
