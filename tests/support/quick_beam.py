"""Beam asks thousands of times a job for what stays the same: the signatures of the same few functions and the types
they name, what they return, the state and timers of each class of DoFn, the names of its options, which classes and
functions pickles may name. That takes half of a small job's time. Another tenth is
the stack at which each type was named, noted for errors of types; another, pickled functions that are compressed for
the process that unpacks them; another, threads that build each stage while the one that started them waits, and how
many elements of which size went from step to step, which nobody asks for.

The tests run thousands of small jobs in one process: there, each is asked once. What is asked and answered stays
Beam's own. `PLAIN_BEAM=1` leaves Beam alone: `make check NAME=plain` holds that
users get the same bytes.
"""

import gc
import os
import sys
import threading
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from importlib import import_module
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
    "apache_beam.utils.interactive_utils",
)
_RUNNER = (  # imported with the first job
    "apache_beam.runners.portability.fn_api_runner.fn_runner",
    "apache_beam.runners.worker.bundle_processor",
)
_PICKLES = 2_000  # remembered, of some kilobytes each
_LEAST = 1  # a level of compression: more makes bz2 clear megabytes of memory for a pickle of some kilobytes
_COMPRESSED = b"BZh"  # what bz2 begins with, and no pickle
_GARBAGE_OBJECTS = 50_000  # new ones, at which garbage is looked for, as in shardmill.pipelines.cli
_REMEMBERING = "_remembering"
_NAMES = "_names_of_options"


def quicken_beam() -> None:
    """Let Beam, once it is imported, remember what it asks; a second call changes nothing."""
    found: list[Any] = [sys.modules[name] for name in _MODULES if name in sys.modules]
    if len(found) < len(_MODULES) or hasattr(found[0], _REMEMBERING) or os.environ.get("PLAIN_BEAM"):
        return
    decorators, inference, options, core, ptransform, userstate, pickler, interactive = found
    of_runner: list[Any] = [import_module(name) for name in _RUNNER]
    runner, bundles = of_runner
    setattr(decorators, _REMEMBERING, True)
    decorators.get_signature = core.get_signature = ptransform.get_signature = _OfFunctions(decorators.get_signature)
    decorators.IOTypeHints.from_callable = _OfFunctions(decorators.IOTypeHints.from_callable)
    decorators.IOTypeHints._make_origin = classmethod(lambda *_, **__: [])
    inference.infer_return_type = _OfPlainFunctions(inference.infer_return_type)
    inference.infer_return_type_func = _OfCombineFns(inference.infer_return_type_func, core.CombineValuesDoFn)
    options.PipelineOptions._visible_option_list = _visible_options
    core._check_fn_use_yield_and_return = _OfCode(core._check_fn_use_yield_and_return)
    arguments = _OfFunctions(core.get_function_args_defaults)
    core.get_function_args_defaults = lambda function: tuple(map(list, arguments(function)))
    userstate.get_dofn_specs = _OfClasses(userstate.get_dofn_specs)
    ptransform.pickler = _named(ptransform.pickler, roundtrip=_copied(ptransform.pickler.roundtrip))
    options._BeamArgumentParser._get_formatter = _once(options._BeamArgumentParser._get_formatter)
    options._BeamArgumentParser.add_argument = _Flags(options._BeamArgumentParser.add_argument).add
    options.argparse._ = lru_cache(options.argparse._)
    interactive.is_in_ipython = _once(interactive.is_in_ipython)
    hints_of = _OfClasses(core.DoFn.default_type_hints)
    core.DoFn.default_type_hints = lambda dofn: hints_of(dofn)
    pickler.cloudpickle.CloudPickler.reducer_override = _References(pickler.cloudpickle.CloudPickler).reduce
    pickler.bz2 = _Unpacked(pickler.bz2)
    runner.FnApiRunner.run_pipeline = _in_this_process(runner.FnApiRunner.run_pipeline, options.DirectOptions)
    bundles.pickler = _named(bundles.pickler, dumps=lambda asked: b64encode(pickler._dumps(asked)))
    bundles.concurrent = SimpleNamespace(futures=_named(bundles.concurrent.futures, ThreadPoolExecutor=_AtOnce))
    bundles.BundleProcessor.monitoring_infos = _own_counts
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


class _OfCombineFns:
    """What a step that combines returns, by the class of what it combines with, the classes and the texts of functions
    that this holds."""

    def __init__(self, ask: Callable[..., Any], combining: Any) -> None:
        self._ask, self._combining = ask, combining
        self._known: dict[Any, Any] = {}

    def __call__(self, function: Any, input_types: Any, *more: Any) -> Any:
        step: Any = getattr(input_types[0], "value", None) if input_types else None  # what it is a method of
        if self._combining is not type(step):
            return self._ask(function, input_types, *more)
        calls = filter(callable, vars(step.combinefn).values())
        called = tuple(call if isinstance(call, type) else _codes(call) for call in calls)
        if None in called:
            return self._ask(function, input_types, *more)
        key = (function, type(step.combinefn), called, step.runtime_type_check, *input_types[1:], *more)
        if key not in self._known:
            self._known[key] = self._ask(function, input_types, *more)
        return self._known[key]


def _visible_options(options: Any) -> list[str]:
    """The names of options, which `dir` also finds, among those of every object; they stay."""
    known = vars(options)
    if _NAMES not in known:
        known[_NAMES] = sorted(name for name in vars(options._visible_options) if name[0] != "_")
    names: list[str] = known[_NAMES]
    return names


def _once(ask: Callable[..., Any]) -> Callable[..., Any]:
    """One answer for all."""
    known: list[Any] = []

    def answer(*asked: Any) -> Any:
        if not known:
            known.append(ask(*asked))
        return known[0]

    return answer


class _Flags:
    """The flags of options, each made once; hundreds of parsers have the same ones."""

    def __init__(self, make: Callable[..., Any]) -> None:
        known: dict[Any, Any] = {}

        def add(parser: Any, *names: str, **attributes: Any) -> Any:
            key = (names, repr(attributes))
            if key in known:
                return parser._add_action(known[key])
            known[key] = make(parser, *names, **attributes)
            return known[key]

        self.add = add


def _named(module: Any, **others: Any) -> SimpleNamespace:
    """A module's names, with others in place of some."""
    return SimpleNamespace(**{**vars(module), **others})


def _copied(copy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Arguments by way of pickles; a function itself, which Beam only tries, for it is pickled as it runs anyway."""
    return lambda asked: copy(asked) if asked and isinstance(asked, (tuple, dict)) else asked


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


class _References:
    """Which classes and functions pickles name: a class or a function of a module stays one, and so does a class whose
    objects are neither."""

    def __init__(self, pickler: Any) -> None:
        ask = pickler.reducer_override
        named: dict[int, Any] = {}
        plain: set[type] = set()

        def reduce(self: Any, asked: Any) -> Any:
            if type(asked) in plain or named.get(id(asked)) is asked:
                return NotImplemented
            answer = ask(self, asked)
            if answer is NotImplemented:
                if isinstance(asked, (type, FunctionType)):
                    named[id(asked)] = asked
                else:
                    plain.add(type(asked))
            return answer

        self.reduce = reduce


_running_here = threading.local()


def _in_this_process(run: Callable[..., Any], direct: Any) -> Callable[..., Any]:
    """Runs a pipeline, whose pickles are not compressed where the workers are threads of this process."""

    def run_pipeline(runner: Any, pipeline: Any, options: Any) -> Any:
        _running_here.yes = options.view_as(direct).direct_running_mode == "in_memory"
        try:
            return run(runner, pipeline, options)
        finally:
            _running_here.yes = False

    return run_pipeline


class _Unpacked:
    """bz2, which compresses nothing for this process, and for others each pickle once."""

    def __init__(self, bz2: Any) -> None:
        self._packed = lru_cache(_PICKLES)(lambda pickled: bz2.compress(pickled, _LEAST))
        self._unpacked = lru_cache(_PICKLES)(bz2.decompress)

    def compress(self, pickled: bytes, compresslevel: int) -> bytes:
        here = getattr(_running_here, "yes", False)
        return pickled if here else self._packed(pickled)

    def decompress(self, packed: bytes) -> bytes:
        return self._unpacked(packed) if packed.startswith(_COMPRESSED) else packed


class _AtOnce:
    """What builds a stage in the thread that waits for it."""

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> "_AtOnce":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(call(*arguments))
        return done


def _own_counts(processor: Any) -> list[Any]:
    """What the steps of a bundle have counted themselves."""
    counts: dict[Any, Any] = {}
    for name, operation in processor.ops.items():
        counts |= operation.user_monitoring_infos(name)
    return list(counts.values())
