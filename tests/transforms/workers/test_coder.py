"""The coder of RecordBatches is registered wherever a PCollection of them is made: unregistered, Beam would pickle
them."""

import ast

import apache_beam as beam
import pyarrow as pa

from shardmill.transforms.workers.elements import RecordBatchCoder
from tests.test_architecture import PATHS, imported, parsed


def makes_batches(module: str) -> bool:
    """Whether a module of PTransforms says anything of batches."""
    libraries = {name.split(".")[0] for name in imported(module)}
    return (
        module != "shardmill.transforms.workers.elements"
        and "pa.RecordBatch" in ast.unparse(parsed(module))
        and "apache_beam" in libraries
    )


def brought(module: str) -> set[str]:
    """What an import of `module` imports of ours."""
    found, new = set[str](), {module}
    while new:
        found |= new
        new = {name for each in new for name in imported(each) if name in PATHS} - found
    return found


def test_every_module_that_makes_batches_registers_their_coder() -> None:
    makers = {module for module in PATHS if makes_batches(module)}

    assert {
        "shardmill.transforms.inputs.sources",
        "shardmill.transforms.files.plan",
        "shardmill.transforms.records.staging",
    } <= makers
    assert [module for module in sorted(makers) if "shardmill.transforms.workers.elements" not in brought(module)] == []


def test_the_coder_is_that_of_batches() -> None:
    assert isinstance(beam.coders.registry.get_coder(pa.RecordBatch), RecordBatchCoder)
