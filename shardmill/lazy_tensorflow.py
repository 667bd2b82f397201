"""TensorFlow, imported when a function first needs it: it takes seconds, and scripts that read without it have none of it."""

import importlib
from typing import Any


class _Lazy:
    """Stands for the module `tensorflow`."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module("tensorflow"), name)
        setattr(self, name, value)
        return value


tf: Any = _Lazy()
