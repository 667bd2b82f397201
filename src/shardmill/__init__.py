"""shardmill: raw images, text and tables to balanced, reproducible TFRecord shards.

Functions are imported when they are first used. Those that read import no Beam, and only `load` and `feature_spec`
import TensorFlow:

* `convert`: run a job, as a command does; `plan` only plans it. They import Beam, as `rebuild` and `verify` do.
* `rebuild`: build a new version by a recipe if anything changed.
* `verify`: re-read a dataset and check every shard.
* `versions`: list the versions of a dataset.
* `load`: a split as a `tf.data.Dataset`, ready for Keras.
* `examples`: a split as dictionaries of NumPy values, for PyTorch, JAX and scripts.
* `info`: a dataset's splits, counts, features and class names.
* `feature_spec`: the dictionary for `tf.io.parse_example`.
* `UserError`, `JobError`, `CorruptDataError`: the errors that these functions and jobs raise.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmill._typed import convert, plan
    from shardmill.errors import CorruptDataError, JobError, UserError
    from shardmill.pipelines.api import Plan, rebuild, verify, versions
    from shardmill.pipelines.commands.rebuild import Rebuilt
    from shardmill.pipelines.commands.verify import Verification
    from shardmill.pipelines.commands.versions import VersionRow, Versions
    from shardmill.pipelines.jobs.outcome import Published
    from shardmill.reading.dataset import info
    from shardmill.reading.plain_examples import examples
    from shardmill.reading.tensor_dataset import load
    from shardmill.reading.tensor_specs import feature_spec

__version__ = "0.1.0"
__all__ = [
    "CorruptDataError",
    "JobError",
    "Plan",
    "Published",
    "Rebuilt",
    "UserError",
    "Verification",
    "VersionRow",
    "Versions",
    "convert",
    "examples",
    "feature_spec",
    "info",
    "load",
    "plan",
    "rebuild",
    "verify",
    "versions",
]

# No sub-package has the name of a function here: importing it would replace the function.
_MODULES = {
    **dict.fromkeys(("CorruptDataError", "JobError", "UserError"), "shardmill.errors"),
    **dict.fromkeys(("Plan", "convert", "plan", "rebuild", "verify", "versions"), "shardmill.pipelines.api"),
    **dict.fromkeys(("VersionRow", "Versions"), "shardmill.pipelines.commands.versions"),
    "Published": "shardmill.pipelines.jobs.outcome",
    "Rebuilt": "shardmill.pipelines.commands.rebuild",
    "Verification": "shardmill.pipelines.commands.verify",
    "examples": "shardmill.reading.plain_examples",
    "feature_spec": "shardmill.reading.tensor_specs",
    "info": "shardmill.reading.dataset",
    "load": "shardmill.reading.tensor_dataset",
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
