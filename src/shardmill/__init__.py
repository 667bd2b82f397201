"""Convert raw images, arrays, text and tables to balanced, reproducible TFRecord shards, and read them.

Run a job:

    import shardmill

    config = shardmill.configure("csv", input="events/*.csv", output="datasets", name="events")
    published = shardmill.convert(config)
    print(published.directory, published.splits, published.rejected)

Options have the names of the command's flags. A value is the flag's text or the Python value it stands for.

Read a data set:

* `load`: a split as a `tf.data.Dataset`, ready for Keras.
* `examples`: a split as dictionaries of NumPy values, for PyTorch, JAX and scripts.
* `info`: the splits, counts, features and class names of a data set.
* `feature_spec`: the dictionary for `tf.io.parse_example`.

All of these raise `UserError`, `JobError` or `CorruptDataError`. Beam is imported only by `configure` and `convert`,
TensorFlow only by `load` and `feature_spec`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmill.errors import CorruptDataError, JobError, UserError
    from shardmill.pipelines.running.api import configure, convert
    from shardmill.pipelines.running.outcome import Published
    from shardmill.reading.dataset_info import info
    from shardmill.reading.plain_examples import examples
    from shardmill.tensors.dataset import load
    from shardmill.tensors.parsing_spec import feature_spec

__version__ = "0.1.0"
__all__ = [
    "CorruptDataError",
    "JobError",
    "Published",
    "UserError",
    "configure",
    "convert",
    "examples",
    "feature_spec",
    "info",
    "load",
]

# No sub-package has the name of a function here: importing it would replace the function.
_MODULES = {
    **dict.fromkeys(("CorruptDataError", "JobError", "UserError"), "shardmill.errors"),
    **dict.fromkeys(("configure", "convert"), "shardmill.pipelines.running.api"),
    "Published": "shardmill.pipelines.running.outcome",
    "examples": "shardmill.reading.plain_examples",
    "feature_spec": "shardmill.tensors.parsing_spec",
    "info": "shardmill.reading.dataset_info",
    "load": "shardmill.tensors.dataset",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import shardmill` takes milliseconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
