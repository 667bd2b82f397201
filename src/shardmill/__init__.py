"""shardmill: raw images, text and tables to balanced, reproducible TFRecord shards.

Functions are imported when they are first used. Each command of the command line is a function of the same name:

* `convert`: run a job, as the command that it names does; `plan` only plans it.
* `write`: run a job over rows that the program holds: a DataFrame, a table, a dataset or a generator.
* `rebuild`: build a new version by a recipe if anything changed.
* `verify`: re-read a dataset and check every shard.
* `index`: write the position of each record, for random access.
* `inspect`, `view`, `report`, `diff`: look at a version or at any records, or compare two versions.
* `versions`, `tag`, `rollback`, `accept`, `retain`: list, name, select, accept and delete versions.

Functions that read import no Beam, and only `load` and `feature_spec` import TensorFlow:

* `load`: a split as a `tf.data.Dataset`, ready for Keras.
* `examples`: a split as dictionaries of NumPy values, for PyTorch, JAX and scripts.
* `source`: a split with random access, for Grain and PyTorch's samplers.
* `torch.Dataset`: batches of a source for PyTorch, the same for any number of ranks and workers.
* `Order`: a shuffled order that is computed, for random access; `GlobalBatches` divides it among ranks and workers.
* `info`: a dataset's splits, counts, features and class names.
* `feature_spec`: the dictionary for `tf.io.parse_example`.

`shardmill.beam` has PTransforms for Beam pipelines: `ReadDataset` and `WriteDataset`.

`UserError`, `JobError` and `CorruptDataError` are the errors that these functions raise.
"""

import importlib

TYPE_CHECKING = False  # type checkers take it for True; importing typing takes most of the time of this module
if TYPE_CHECKING:
    from shardmill import beam as beam
    from shardmill._typed import *  # noqa: F403  # the functions of commands, and their results
    from shardmill.errors import CorruptDataError as CorruptDataError
    from shardmill.errors import JobError as JobError
    from shardmill.errors import UserError as UserError
    from shardmill.reading.dataset import DatasetInfo as DatasetInfo
    from shardmill.reading.dataset import info as info
    from shardmill.reading.order import GlobalBatches as GlobalBatches
    from shardmill.reading.order import Order as Order
    from shardmill.reading.plain_examples import examples as examples
    from shardmill.reading.source import Source as Source
    from shardmill.reading.source import source as source
    from shardmill.reading.tensor_dataset import load as load
    from shardmill.reading.tensor_specs import feature_spec as feature_spec

    __all__: list[str]

__version__ = "1.0.0"

# No sub-package has the name of a function here: importing it would replace the function.
_MODULES = {
    **dict.fromkeys(("CorruptDataError", "JobError", "UserError"), "shardmill.errors"),
    **dict.fromkeys(("Plan", "convert", "plan", "write"), "shardmill.pipelines.commands.convert"),
    "Published": "shardmill.pipelines.jobs.outcome",
    "examples": "shardmill.reading.plain_examples",
    "feature_spec": "shardmill.reading.tensor_specs",
    **dict.fromkeys(("DatasetInfo", "info"), "shardmill.reading.dataset"),
    **dict.fromkeys(("GlobalBatches", "Order"), "shardmill.reading.order"),
    **dict.fromkeys(("Source", "source"), "shardmill.reading.source"),
    "load": "shardmill.reading.tensor_dataset",
}


def _modules() -> dict[str, str]:
    """Return the module of each public name: those above, and those that the registry of commands lists."""
    from shardmill.pipelines.jobs.registry import entries

    return _MODULES | {name: entry.module for entry in entries().values() for name in entry.exports}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import shardmill` takes milliseconds."""
    if name in ("beam", "torch"):
        return importlib.import_module(f"shardmill.{name}")
    if name == "__all__":
        return sorted(_modules())
    module = _MODULES.get(name) or (not name.startswith("_") and _modules().get(name))
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module.startswith("shardmill.pipelines."):
        from shardmill.installed import check_beam

        check_beam()
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})
