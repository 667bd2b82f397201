"""A user's preprocessing.py as text, which is what travels to workers, and the function that it defines. Pure.

Workers run the text anew: nothing of the user's is pickled, and the module need not be installed where they are.
"""

import hashlib
import linecache
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from shardmill.errors import UserError
from shardmill.transforms.options.words import meant

FUNCTION = "preprocessing_fn"  # as TFX calls it
_lock = threading.RLock()
_loaded: dict[str, ModuleType] = {}  # in this process, by the digest of their text


@dataclass(frozen=True, slots=True)
class PreprocessingModule:
    """The module; called, it does what its `preprocessing_fn` does.

    Attributes:
      name: of its file.
      text: of it.
    """

    name: str
    text: str

    @classmethod
    def of(cls, name: str, data: bytes) -> "PreprocessingModule":
        """The module in a file of these bytes; raises a UserError where they are no text of Python's."""
        try:
            module = cls(name, data.decode())
            compile(module.text, name, "exec")
        except UnicodeDecodeError as error:
            raise UserError(f"--module_file {name} is no text in UTF-8: {error}") from None
        except (SyntaxError, ValueError) as error:  # ValueError: a null byte
            line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise UserError(f"--module_file {name}{line} is no Python: {getattr(error, 'msg', error)}") from None
        return module

    @property
    def sha256(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_json(self) -> dict[str, str]:
        """As it stands in manifest.json."""
        return {"name": self.name, "sha256": self.sha256}

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What its function makes of `inputs`, tensors by the names of features.

        Raises:
          UserError: the module does not import, its function raises, or what it returns is no dictionary; the sentence
            names the line.
        """
        names = list(inputs)
        function = self.function()
        try:
            found = function(inputs)
        except Exception as error:
            raise self._wrong(error, names) from error
        if not isinstance(found, dict):
            raise UserError(f"{self._where}: {FUNCTION} returns {_called(found)}; expected a dictionary of tensors")
        if not found:
            raise UserError(f"{self._where}: {FUNCTION} returns an empty dictionary; expected one of tensors")
        return found

    def function(self) -> Callable[[Mapping[str, Any]], Any]:
        """Its `preprocessing_fn`; raises a UserError where the module does not import, or has none."""
        with _lock:
            if self.sha256 not in _loaded:
                _loaded[self.sha256] = self._import()
            function = getattr(_loaded[self.sha256], FUNCTION, None)
        if not callable(function):
            raise UserError(f"{self._where} has no function {FUNCTION}(inputs)")
        return function

    @property
    def _where(self) -> str:
        return f"--module_file {self.name}"

    def _import(self) -> ModuleType:
        module = ModuleType(f"shardmill_module_{self.sha256[:16]}")
        module.__file__ = self.name
        linecache.cache[self.name] = len(self.text), None, self.text.splitlines(keepends=True), self.name
        sys.modules[module.__name__] = module  # dataclasses look there for the names in annotations
        try:
            exec(compile(self.text, self.name, "exec"), module.__dict__)
        except ModuleNotFoundError as error:
            raise UserError(
                f"{self._where}{self._line(error)} does not import: {error}; it stands alone: what it imports must be"
                " installed, here and on workers"
            ) from error
        except Exception as error:
            raise UserError(f"{self._where}{self._line(error)} does not import: {_said(error)}") from error
        finally:
            del sys.modules[module.__name__]  # pickles of what it defines hold the definition, and no name of a module
        return module

    def _line(self, error: BaseException) -> str:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.name]
        return f" line {lines[-1]}" if lines else ""

    def _wrong(self, error: Exception, features: Iterable[str]) -> UserError:
        if isinstance(error, UserError):
            return error
        at = f"{self._where}{self._line(error)}"
        asked = error.args[0] if isinstance(error, KeyError) and error.args else None
        known = list(features)
        if isinstance(asked, str) and asked not in known:
            return UserError(f"{at}: feature {asked!r} is not there; {meant(asked, known)}")
        return UserError(f"{at}: {FUNCTION} raises {_said(error)}")


def _said(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _called(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
