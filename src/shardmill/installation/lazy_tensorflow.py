"""TensorFlow, imported when a function first needs it: it takes seconds, and scripts that read without it have none of
it."""

import importlib
from typing import Any

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint


class _Lazy:
    """Stands for the module `tensorflow`."""

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module("tensorflow")
        except ModuleNotFoundError as error:
            if error.name != "tensorflow":
                raise
            raise UserError(f"reading into tensors needs TensorFlow; {install_hint('tensorflow')}") from None
        value = getattr(module, name)
        setattr(self, name, value)
        return value


tf: Any = _Lazy()
