"""Beam asks thousands of times a job for what stays the same: the signatures of the same few functions and the types
they name, the state and timers of each class of DoFn, where the globals of every module are, the compression of the
same pickled functions. That takes half of a small job's time.

The tests run thousands of small jobs in one process: there, each is asked once. What is asked and answered stays
Beam's own.
"""

import gc
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

_MODULES = (
    "apache_beam.typehints.decorators",
    "apache_beam.transforms.core",
    "apache_beam.transforms.ptransform",
    "apache_beam.transforms.userstate",
    "apache_beam.internal.cloudpickle_pickler",
    "objsize.traverse",
)
_PICKLES = 2_000  # remembered, of some kilobytes each
_GARBAGE_OBJECTS = 50_000  # new ones, at which garbage is looked for, as in pipelines.cli
_REMEMBERING = "_remembering"


def quicken_beam() -> None:
    """Let Beam, once it is imported, remember what it asks; a second call changes nothing."""
    found: list[Any] = [sys.modules[name] for name in _MODULES if name in sys.modules]
    if len(found) < len(_MODULES) or hasattr(found[0], _REMEMBERING):
        return
    decorators, core, ptransform, userstate, pickler, sizes = found
    setattr(decorators, _REMEMBERING, True)
    decorators.get_signature = core.get_signature = ptransform.get_signature = _OfFunctions(decorators.get_signature)
    decorators.IOTypeHints.from_callable = _OfFunctions(decorators.IOTypeHints.from_callable)
    core._check_fn_use_yield_and_return = _OfFunctions(core._check_fn_use_yield_and_return)
    userstate.get_dofn_specs = _OfClasses(userstate.get_dofn_specs)
    sizes._iter_modules_globals = _WhileModulesStay(sizes._iter_modules_globals)
    packed, unpacked = (lru_cache(_PICKLES)(function) for function in (pickler.bz2.compress, pickler.bz2.decompress))
    pickler.bz2 = SimpleNamespace(compress=packed, decompress=unpacked)
    gc.set_threshold(_GARBAGE_OBJECTS)
    gc.freeze()


class _OfFunctions:
    """Answers to questions that a function's own definition answers: the same for every object that has the method."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask
        self._functions: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()
        self._methods: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()

    def __call__(self, function: Any) -> Any:
        known, key = self._functions, function
        if isinstance(function, MethodType):
            known, key = self._methods, function.__func__
        if not isinstance(key, FunctionType):
            return self._ask(function)
        if key not in known:
            known[key] = self._ask(function)
        return known[key]


class _OfClasses:
    """Answers to questions that an object's class answers, where no attribute stands in for a method."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask
        self._known: WeakKeyDictionary[type, Any] = WeakKeyDictionary()

    def __call__(self, asked: Any) -> Any:
        if any(isinstance(value, MethodType) for value in vars(asked).values()):
            return self._ask(asked)
        if type(asked) not in self._known:
            self._known[type(asked)] = self._ask(asked)
        return self._known[type(asked)]


class _WhileModulesStay:
    """What is true of all modules, asked anew when there is another."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._modules = 0
        self._found: list[Any] = []

    def __call__(self) -> list[Any]:
        if len(sys.modules) != self._modules:
            self._modules, self._found = len(sys.modules), list(self._ask())
        return self._found
