"""The user's module of --module_file, and its preprocessing_fn."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shardmill.errors import UserError
from shardmill.transforms.options.declare import expected_words
from shardmill.transforms.user_module import UserModule, format_error

FUNCTION_NAME = "preprocessing_fn"  # as TFX calls it
OPTION = "--module_file"


@dataclass(frozen=True, slots=True)
class PreprocessingModule(UserModule):
    """A user's module, with the modules of its folder that it imports. Calling it calls its `preprocessing_fn`."""

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of the module's function for `inputs`, tensors by feature name.

        Raises UserError, which names the line, if the module or its function fails or does not return a dictionary.
        """
        names = list(inputs)
        function = self.function()
        try:
            with self.importing():
                found = function(inputs)
        except Exception as error:
            raise self._function_error(error, names) from error
        if not isinstance(found, dict):
            returned = "nothing" if found is None else f"a {type(found).__name__}"
            raise UserError(f"{self.where}: {FUNCTION_NAME} returns {returned}; expected a dictionary of tensors")
        if not found:
            raise UserError(f"{self.where}: {FUNCTION_NAME} returns an empty dictionary; expected one of tensors")
        return found

    def function(self) -> Callable[[Mapping[str, Any]], Any]:
        """Return its `preprocessing_fn`; raise UserError if the module cannot be imported or has none."""
        function = self.contents.get(FUNCTION_NAME)
        if not callable(function):
            raise UserError(f"{self.where} has no function {FUNCTION_NAME}(inputs)")
        return function

    def _function_error(self, error: Exception, features: Iterable[str]) -> UserError:
        if isinstance(error, UserError):
            return error
        at = self.locate(error)
        missing_key = error.args[0] if isinstance(error, KeyError) and error.args else None
        known = list(features)
        if isinstance(missing_key, str) and missing_key not in known:
            return UserError(f"{at}: feature {missing_key!r} is not there; {expected_words(missing_key, known)}")
        return UserError(f"{at}: {FUNCTION_NAME} raises {format_error(error)}")
