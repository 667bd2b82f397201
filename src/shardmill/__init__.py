"""shardmill: raw images, text and tables to balanced, reproducible TFRecord shards.

Functions are imported when they are first used. Each command of the command line is a function of the same name:

* `convert`: run a job, as the command that it names does; `plan` only plans it.
* `write`: run a job over rows that the program holds: a DataFrame, a table, a dataset or a generator.
* `rebuild`: build a new version by a recipe if anything changed.
* `verify`: re-read a dataset and check every shard.
* `index`: write the position of each record, for random access.
* `inspect`, `report`, `diff`: look at a version, or compare two.
* `versions`, `tag`, `rollback`, `accept`, `retain`: list, name, select, accept and delete versions.

Functions that read import no Beam, and only `load` and `feature_spec` import TensorFlow:

* `load`: a split as a `tf.data.Dataset`, ready for Keras.
* `examples`: a split as dictionaries of NumPy values, for PyTorch, JAX and scripts.
* `source`: a split with random access, for Grain and PyTorch's samplers.
* `torch.Dataset`: batches of a source for PyTorch, the same for any number of ranks and workers.
* `Order`: a shuffled order that is computed, for random access; `GlobalBatches` divides it among ranks and workers.
* `info`: a dataset's splits, counts, features and class names.
* `feature_spec`: the dictionary for `tf.io.parse_example`.

`shardmill.beam` has PTransforms for Beam pipelines: `ReadDataset`.

`UserError`, `JobError` and `CorruptDataError` are the errors that these functions raise.
"""

import importlib

TYPE_CHECKING = False  # type checkers take it for True; importing typing takes most of the time of this module
if TYPE_CHECKING:
    from shardmill import beam as beam
    from shardmill._typed import convert, plan, write
    from shardmill.errors import CorruptDataError, JobError, UserError
    from shardmill.pipelines.api import (
        Plan,
        accept,
        diff,
        index,
        inspect,
        rebuild,
        report,
        retain,
        rollback,
        tag,
        verify,
        versions,
    )
    from shardmill.pipelines.commands.index import Indexed
    from shardmill.pipelines.commands.inspect import Inspection
    from shardmill.pipelines.commands.rebuild import Rebuilt
    from shardmill.pipelines.commands.report import Comparison, Report
    from shardmill.pipelines.commands.retain import Retained
    from shardmill.pipelines.commands.verify import Verification
    from shardmill.pipelines.commands.versions import Accepted, RolledBack, Tagged, VersionRow, Versions
    from shardmill.pipelines.jobs.outcome import Published
    from shardmill.reading.dataset import DatasetInfo, info
    from shardmill.reading.order import GlobalBatches, Order
    from shardmill.reading.plain_examples import examples
    from shardmill.reading.source import Source, source
    from shardmill.reading.tensor_dataset import load
    from shardmill.reading.tensor_specs import feature_spec

__version__ = "1.0.0"
__all__ = [
    "Accepted",
    "Comparison",
    "CorruptDataError",
    "DatasetInfo",
    "GlobalBatches",
    "Indexed",
    "Inspection",
    "JobError",
    "Order",
    "Plan",
    "Published",
    "Rebuilt",
    "Report",
    "Retained",
    "RolledBack",
    "Source",
    "Tagged",
    "UserError",
    "Verification",
    "VersionRow",
    "Versions",
    "accept",
    "convert",
    "diff",
    "examples",
    "feature_spec",
    "index",
    "info",
    "inspect",
    "load",
    "plan",
    "rebuild",
    "report",
    "retain",
    "rollback",
    "source",
    "tag",
    "verify",
    "versions",
    "write",
]

# No sub-package has the name of a function here: importing it would replace the function.
_API = "accept convert diff index inspect plan rebuild report retain rollback tag verify versions write"
_MODULES = {
    **dict.fromkeys(("CorruptDataError", "JobError", "UserError"), "shardmill.errors"),
    **dict.fromkeys(("Plan", *_API.split()), "shardmill.pipelines.api"),
    **dict.fromkeys(("Comparison", "Report"), "shardmill.pipelines.commands.report"),
    **dict.fromkeys(
        ("Accepted", "RolledBack", "Tagged", "VersionRow", "Versions"), "shardmill.pipelines.commands.versions"
    ),
    "Indexed": "shardmill.pipelines.commands.index",
    "Inspection": "shardmill.pipelines.commands.inspect",
    "Published": "shardmill.pipelines.jobs.outcome",
    "Rebuilt": "shardmill.pipelines.commands.rebuild",
    "Retained": "shardmill.pipelines.commands.retain",
    "Verification": "shardmill.pipelines.commands.verify",
    "examples": "shardmill.reading.plain_examples",
    "feature_spec": "shardmill.reading.tensor_specs",
    **dict.fromkeys(("DatasetInfo", "info"), "shardmill.reading.dataset"),
    **dict.fromkeys(("GlobalBatches", "Order"), "shardmill.reading.order"),
    **dict.fromkeys(("Source", "source"), "shardmill.reading.source"),
    "load": "shardmill.reading.tensor_dataset",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import shardmill` takes milliseconds."""
    if name in ("beam", "torch"):
        return importlib.import_module(f"shardmill.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
