"""A user's function for --map and --map_batches: where it is, how it is called, and what it may return."""

import hashlib
import inspect
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.text import shorten
from shardmill.transforms.options.declare import expected_words
from shardmill.transforms.user_module import UserModule, format_error

MAP, MAP_BATCHES = "--map", "--map_batches"
_RNG = "rng"  # the name of the parameter that takes random numbers
_NAMED = re.compile(r"(.+\.py):([^:/]+)")
_SAMPLE = 64  # one of so many records is run twice
_SMALL_INPUT = 64 << 10  # bytes, of an input of which every record is run twice

_lock = threading.RLock()
_unpickled: dict[str, Callable[..., Any]] = {}  # in this process, by the digest of their pickle
_takes_rng: dict["UserFunction", bool] = {}  # in this process, of functions that were checked


class FunctionError(Exception):
    """A record that a function failed on; the message is the reason of its reject."""


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of --map, which takes a record, or of --map_batches, which takes a RecordBatch.

    It is pickled to workers: as the sources of its module, or as what cloudpickle makes of a callable.
    """

    option: str  # --map or --map_batches
    name: str  # of the function
    module: UserModule | None = None  # in which it is; None for a callable
    pickled: bytes = b""  # a callable, by cloudpickle
    sha256: str = ""  # of a callable's source text, or of its bytecode

    @classmethod
    def parse(cls, option: str, value: Any) -> "UserFunction":
        """Return the function that `module.py:function` names, or a callable.

        Raises OptionValueError for other values, and UserError if the module cannot be read or is not Python.
        """
        if isinstance(value, UserFunction):
            return value
        if callable(value):
            return cls._of_callable(option, value)
        found = _NAMED.fullmatch(str(value))
        if found is None:
            raise OptionValueError(f"{value} is not FILE.py:FUNCTION, such as clean.py:clean_row")
        return cls(option, found[2], UserModule.read(found[1], option))

    @classmethod
    def _of_callable(cls, option: str, function: Callable[..., Any]) -> "UserFunction":
        name = getattr(function, "__qualname__", type(function).__qualname__)
        if (path := _own_file(function)) is not None:
            return cls(option, name, UserModule.read(path, option))
        import cloudpickle

        try:
            pickled = cloudpickle.dumps(function)
        except Exception as error:  # whatever its values raise
            raise OptionValueError(f"{name} cannot be sent to workers: {format_error(error)}") from None
        return cls(option, name, None, pickled, _digest_callable(function, pickled))

    @property
    def is_of_batches(self) -> bool:
        """Return True for --map_batches."""
        return self.option == MAP_BATCHES

    def __str__(self) -> str:
        return f"{self.option} {f'{self.module.name}:' if self.module else ''}{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the function as in manifest.json: its name, and the digest of its source."""
        source = {"sha256": self.sha256} if self.module is None else self.module.to_json()
        return {"function": self.name, **source}

    def check(self) -> None:
        """Import the function and check its parameters; raises UserError."""
        function = self._load()
        if self in _takes_rng:
            return
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # of some functions of C
            _takes_rng[self] = False
            return
        takes_rng = _RNG in signature.parameters
        if takes_rng and self.is_of_batches:
            raise UserError(
                f"{self} has a parameter {_RNG}: random numbers of a batch would depend on how files are divided into"
                f" batches; give the function to {MAP}, for which they depend on the row alone"
            )
        try:
            signature.bind(None, **({_RNG: None} if takes_rng else {}))
        except TypeError:
            expected = f"{self.name}(batch)" if self.is_of_batches else f"{self.name}(row) or {self.name}(row, {_RNG})"
            raise UserError(f"{self} has the parameters {signature}; expected {expected}") from None
        _takes_rng[self] = takes_rng

    def _load(self) -> Callable[..., Any]:
        if self.module is None:
            return self._unpickle()
        contents = self.module.contents
        function = contents.get(self.name)
        if not callable(function):
            known = [name for name, value in contents.items() if inspect.isfunction(value)]
            hint = expected_words(self.name, known) if known else "it defines no function"
            raise UserError(f"{self.option} {self.module.name} has no function {self.name!r}; {hint}")
        return function

    def _unpickle(self) -> Callable[..., Any]:
        import cloudpickle

        key = hashlib.sha256(self.pickled).hexdigest()
        with _lock:
            if key not in _unpickled:
                try:
                    _unpickled[key] = cloudpickle.loads(self.pickled)
                except ImportError as error:
                    raise self._missing_package(error) from error
            return _unpickled[key]

    @contextmanager
    def calling(self) -> Iterator[Callable[..., list[Any]]]:
        """Yield a function of (value, seed of its random numbers) that returns a list of what the function returns.

        What it prints goes to stderr. The yielded function raises FunctionError, and UserError if a package is missing.
        """
        self.check()
        function, takes_rng = self._load(), _takes_rng[self]
        collect = self._collect_batches if self.is_of_batches else self._collect_rows

        def call(value: Any, seed: int = 0) -> list[Any]:
            try:
                found = function(value, **({_RNG: np.random.default_rng(seed)} if takes_rng else {}))
                return collect(found)
            except (FunctionError, UserError, MemoryError):
                raise
            except ModuleNotFoundError as error:
                raise self._missing_package(error) from error
            except (Exception, SystemExit) as error:
                raise FunctionError(self._describe_error(error, value)) from error

        with _stdout_to_stderr(), self.module.importing() if self.module is not None else nullcontext():
            yield call

    def _missing_package(self, error: ImportError) -> UserError:
        return UserError(
            f"{self} does not import: {error}; what it imports must be installed, here and on workers, or be a .py file"
            " of its folder that an import statement names"
        )

    def _describe_error(self, error: BaseException, value: Any) -> str:
        at = f"{self.module.locate(error).removeprefix(f'{self.option} ')}: " if self.module is not None else ""
        key = error.args[0] if isinstance(error, KeyError) and error.args else None
        names = value.schema.names if isinstance(value, pa.RecordBatch) else value if isinstance(value, dict) else ()
        if isinstance(key, str) and key not in names and all(isinstance(name, str) for name in names):
            return f"{at}{self.name}: {key!r} is not there; {expected_words(key, names)}"
        return f"{at}{self.name} raises {format_error(error)}"

    def _collect_rows(self, found: Any) -> list[Any]:
        if found is None:
            return []
        if isinstance(found, Mapping):
            found = [found]
        if isinstance(found, list | tuple):
            rows = found
        elif isinstance(found, GeneratorType):
            # which may change and yield one dictionary again and again
            rows = [dict(row) if isinstance(row, Mapping) else row for row in found]
        else:
            raise FunctionError(
                f"{self.name} returns {_describe(found)}; expected a dictionary, None or a list of dictionaries"
            )
        for row in rows:
            if not isinstance(row, Mapping):
                raise FunctionError(f"{self.name} returns a list with {_describe(row)}; expected dictionaries")
            if (name := next((name for name in row if not isinstance(name, str)), None)) is not None:
                raise FunctionError(f"{self.name} returns the column {name!r}; expected a text as its name")
        return [row if isinstance(row, dict) else dict(row) for row in rows]

    def _collect_batches(self, found: Any) -> list[Any]:
        if found is None:
            return []
        if isinstance(found, pa.RecordBatch):
            found = [found]
        elif isinstance(found, pa.Table):
            found = found.to_batches()
        batches = list(found) if isinstance(found, list | tuple | GeneratorType) else [found]
        for batch in batches:
            if not isinstance(batch, pa.RecordBatch):
                raise FunctionError(
                    f"{self.name} returns {_describe(batch)}; expected a pyarrow.RecordBatch, a Table, None or a list"
                    " of RecordBatches"
                )
            if len(set(batch.schema.names)) < len(batch.schema.names):
                raise FunctionError(f"{self.name} returns a batch with two columns of one name")
        return batches


def _own_file(function: Callable[..., Any]) -> str | None:
    """Return the file of a function of a user's module; None for others, which cloudpickle sends."""
    name, module = getattr(function, "__qualname__", ""), sys.modules.get(getattr(function, "__module__", None) or "")
    if not inspect.isfunction(function) or module is None or module.__name__ == "__main__":
        return None
    path = getattr(module, "__file__", None) or ""
    installed = any(path.startswith(sysconfig.get_path(kind)) for kind in ("purelib", "platlib", "stdlib"))
    is_found = path.endswith(".py") and not installed and getattr(module, name, None) is function
    return path if is_found else None


def _digest_callable(function: Callable[..., Any], pickled: bytes) -> str:
    with suppress(OSError, TypeError):
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()
    return hashlib.sha256(pickled).hexdigest()


def _describe(value: Any) -> str:
    return f"a {type(value).__name__}, {shorten(repr(value))}"


class _Redirection:
    """The number of threads that call functions now, and the stdout of before."""

    count = 0
    stdout: Any = None


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Let print write to stderr: the stdout of a command is its result. Threads may do this at once."""
    with _lock:
        if not _Redirection.count:
            _Redirection.stdout, sys.stdout = sys.stdout, sys.stderr
        _Redirection.count += 1
    try:
        yield
    finally:
        with _lock:
            _Redirection.count -= 1
            if not _Redirection.count:
                sys.stdout = _Redirection.stdout


def record_seed(source: str, line: int, seed: int) -> int:
    """Return the 64-bit seed of a record's random numbers: it depends on its place in the input and on --seed.

    Rows without an order have their content as `source`, and no line.
    """
    return int(xxhash.xxh3_64_intdigest(f"{source}\0{line}".encode("utf-8", "surrogateescape"), seed))


def is_sampled(record: int, input_bytes: int) -> bool:
    """Return True if a record, given its `record_seed`, is run twice; all records of a small input are."""
    return input_bytes < _SMALL_INPUT or record % _SAMPLE == 0


def is_same(one: Any, other: Any) -> bool:
    """Return True if two results of a function are equal; NaN equals NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        same_kind = one.dtype == other.dtype and one.shape == other.shape
        return same_kind and (one.tobytes() == other.tobytes() or bool(np.array_equal(one, other)))
    if hasattr(one, "tobytes"):  # a PIL image
        return bool(one.tobytes() == other.tobytes())
    return one is other or bool(one == other) or (one != one and other != other)
