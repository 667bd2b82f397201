"""Beam asks thousands of times a job for what stays the same: the signatures of the same few functions and the types
they name, what they return, the state and timers of each class of DoFn, the names of its options, where the globals of
every module are, the compression of the same pickled functions. That takes half of a small job's time. Another tenth is
the stack at which each type was named, noted for errors of types.

The tests run thousands of small jobs in one process: there, each is asked once. What is asked and answered stays
Beam's own.
"""

import gc
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

_MODULES = (
    "apache_beam.typehints.decorators",
    "apache_beam.typehints.trivial_inference",
    "apache_beam.options.pipeline_options",
    "apache_beam.transforms.core",
    "apache_beam.transforms.ptransform",
    "apache_beam.transforms.userstate",
    "apache_beam.internal.cloudpickle_pickler",
    "objsize.traverse",
)
_PICKLES = 2_000  # remembered, of some kilobytes each
_LEAST = 1  # a level of compression: more makes bz2 clear megabytes of memory for a pickle of some kilobytes
_GARBAGE_OBJECTS = 50_000  # new ones, at which garbage is looked for, as in pipelines.cli
_REMEMBERING = "_remembering"


def quicken_beam() -> None:
    """Let Beam, once it is imported, remember what it asks; a second call changes nothing."""
    found: list[Any] = [sys.modules[name] for name in _MODULES if name in sys.modules]
    if len(found) < len(_MODULES) or hasattr(found[0], _REMEMBERING):
        return
    decorators, inference, options, core, ptransform, userstate, pickler, sizes = found
    setattr(decorators, _REMEMBERING, True)
    decorators.get_signature = core.get_signature = ptransform.get_signature = _OfFunctions(decorators.get_signature)
    decorators.IOTypeHints.from_callable = _OfFunctions(decorators.IOTypeHints.from_callable)
    decorators.IOTypeHints._make_origin = classmethod(lambda *_, **__: [])
    inference.infer_return_type = _OfPlainFunctions(inference.infer_return_type)
    options.PipelineOptions._visible_option_list = _visible_options
    core._check_fn_use_yield_and_return = _OfCode(core._check_fn_use_yield_and_return)
    arguments = _OfFunctions(core.get_function_args_defaults)
    core.get_function_args_defaults = lambda function: tuple(map(list, arguments(function)))
    userstate.get_dofn_specs = _OfClasses(userstate.get_dofn_specs)
    sizes._iter_modules_globals = _WhileModulesStay(sizes._iter_modules_globals)
    pack, unpack = pickler.bz2.compress, lru_cache(_PICKLES)(pickler.bz2.decompress)
    packed = lru_cache(_PICKLES)(lambda pickled: pack(pickled, _LEAST))
    pickler.bz2 = SimpleNamespace(compress=lambda pickled, compresslevel: packed(pickled), decompress=unpack)
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


class _OfCode:
    """Answers to questions that the text of a function answers: the same for all that one `def` or `lambda` makes."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask
        self._known: dict[CodeType, Any] = {}

    def __call__(self, function: Any) -> Any:
        code = getattr(function, "__code__", None)
        if code is None:
            return self._ask(function)
        if code not in self._known:
            self._known[code] = self._ask(function)
        return self._known[code]


class _OfPlainFunctions:
    """Which type a function returns, by those that it is given, where it knows nothing but functions beside them."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._known: dict[Any, Any] = {}

    def __call__(self, function: Any, input_types: Any, *more: Any, **named: Any) -> Any:
        codes = _codes(function)
        if codes is None or more or named:
            return self._ask(function, input_types, *more, **named)
        key = (codes, *input_types)
        if key not in self._known:
            self._known[key] = self._ask(function, input_types)
        return self._known[key]


def _codes(function: Any) -> tuple[Any, ...] | None:
    """The texts of a function and of those it closes over; None if it has defaults or closes over another thing."""
    if not isinstance(function, FunctionType) or function.__defaults__:
        return None
    inner = [_codes(cell.cell_contents) for cell in function.__closure__ or ()]
    return None if None in inner else (function.__code__, *inner)


def _visible_options(options: Any) -> list[str]:
    """The names of options, which `dir` also finds, among those of every object."""
    return sorted(name for name in vars(options._visible_options) if name[0] != "_")


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
