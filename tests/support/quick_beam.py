"""Beam asks thousands of times a job for the signatures of the same few methods, which takes a third of a small job's
time.

The tests run thousands of small jobs in one process: there, each method is asked once. What is asked and answered stays
  Beam's own.
"""

import sys
from collections.abc import Callable
from inspect import Signature
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

_MODULES = ("apache_beam.typehints.decorators", "apache_beam.transforms.core")


def remember_signatures() -> None:
    """Let Beam, once it is imported, remember the signatures of bound methods; a second call changes nothing."""
    modules = [sys.modules[name] for name in _MODULES if name in sys.modules]
    if len(modules) < len(_MODULES) or isinstance(modules[0].get_signature, _Remembering):
        return
    remembering = _Remembering(modules[0].get_signature)
    for module in modules:
        module.get_signature = remembering  # type: ignore[attr-defined]


class _Remembering:
    def __init__(self, signature: Callable[[Any], Signature]) -> None:
        self._signature = signature
        self._known: WeakKeyDictionary[FunctionType, Signature] = WeakKeyDictionary()

    def __call__(self, function: Any) -> Signature:
        if not isinstance(function, MethodType) or not isinstance(function.__func__, FunctionType):
            return self._signature(function)
        found = self._known.get(function.__func__)
        if found is None:
            found = self._known[function.__func__] = self._signature(function)
        return found
