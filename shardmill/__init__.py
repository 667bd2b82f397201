"""shardmill: raw images, text and tables to balanced, reproducible TFRecord shards.

This package is the data set itself: names, features, manifest, reading. It imports no Beam, and TensorFlow only where
`load` or `feature_spec` is called:

* `load`: a split as a `tf.data.Dataset`, ready for Keras.
* `examples`: a split as dictionaries of NumPy values, for PyTorch, JAX and scripts.
* `info`: what a data set is: splits, counts, features, class names.
* `feature_spec`: the dictionary for `tf.io.parse_example`.
* `UserError`, `JobError`, `CorruptDataError`: what these raise, and a job.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmill.errors import CorruptDataError, JobError, UserError
    from shardmill.reading.dataset_info import info
    from shardmill.reading.plain_examples import examples
    from shardmill.tensors.dataset import load
    from shardmill.tensors.parsing_spec import feature_spec

__version__ = "0.1.0"
__all__ = ["CorruptDataError", "JobError", "UserError", "examples", "feature_spec", "info", "load"]

# No room has the name of a function: importing it would put the room in the function's place.
_MODULES = {
    **dict.fromkeys(("CorruptDataError", "JobError", "UserError"), "errors"),
    "examples": "reading.plain_examples",
    "feature_spec": "tensors.parsing_spec",
    "info": "reading.dataset_info",
    "load": "tensors.dataset",
}


def __getattr__(name: str) -> object:
    """A public name, imported when it is first used: `import shardmill` takes milliseconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
