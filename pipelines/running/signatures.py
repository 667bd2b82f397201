"""Beam asks thousands of times a job for the signatures of the same few methods of its DoFns, and hundreds of times
which state and timers each DoFn has, which takes most of a second of a job's start-up: while a job runs, each method,
and each DoFn, is asked once.

What is asked and answered stays Beam's own; `get_signature` of apache_beam/typehints/decorators.py and `get_dofn_specs`
of apache_beam/transforms/userstate.py, 2.77, have no public way to be asked less.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Signature
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.transforms import core, userstate
from apache_beam.typehints import decorators

from shardmill.transforms.stores.together import hold_shared

_MODULES: tuple[Any, ...] = (decorators, core)  # where `get_signature` is looked up
_KNOWN: "WeakKeyDictionary[FunctionType, Signature]" = WeakKeyDictionary()


@contextmanager
def remembered_signatures() -> Iterator[None]:
    """Let Beam remember the signatures of bound methods, and what DoFns keep, and leave it as it was."""
    with hold_shared("signatures", _remembering):
        yield


@contextmanager
def _remembering() -> Iterator[None]:
    asked = [module.get_signature for module in _MODULES]
    specs_of = userstate.get_dofn_specs
    for module, ask in zip(_MODULES, asked, strict=True):
        module.get_signature = _Methods(ask)
    userstate.get_dofn_specs = _DoFns(specs_of)
    try:
        yield
    finally:
        userstate.get_dofn_specs = specs_of
        for module, ask in zip(_MODULES, asked, strict=True):
            module.get_signature = ask


class _DoFns:
    """Asks once which state and timers a DoFn has. Not once a class: a DoFn may hold the function that it calls."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask
        self._known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __call__(self, dofn: Any) -> Any:
        try:
            found = self._known.get(dofn)
        except TypeError:  # of one that has no hash
            return self._ask(dofn)
        if found is None:
            found = self._known[dofn] = self._ask(dofn)
        return found


class _Methods:
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
