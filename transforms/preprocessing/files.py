"""What --transform adds to a version: the folder that TensorFlow Transform writes, and what was found of the data."""

from collections.abc import Mapping
from dataclasses import replace

from shardmill.features.feature import Features
from shardmill.features.renames import Renames
from shardmill.metadata import naming
from shardmill.metadata.transform_file import HEAD, TransformedOutput, TransformFile, VocabularySummary
from shardmill.transforms.preprocessing.constants import Constants, find_constants
from shardmill.transforms.preprocessing.declaration import Declaration
from shardmill.transforms.preprocessing.former import FormerGraph, drift, drift_sentences
from shardmill.transforms.preprocessing.gather import Analysis, Gathered
from shardmill.transforms.preprocessing.graph import graph_files, vocabulary_files
from shardmill.transforms.preprocessing.module_files import module_sentences
from shardmill.transforms.preprocessing.steps import to_json

_ASSETS = f"{naming.TRANSFORM_GRAPH}/transform_fn/assets"


def transform_files(analysis: Analysis, gathered: Gathered, features: Features, renames: Renames) -> dict[str, bytes]:
    """The files, by their names in the version directory.

    Args:
      analysis: what was asked for.
      gathered: of all examples.
      features: of raw examples, by the names of the input.
      renames: what they are called in examples.

    Raises:
      JobError: constants cannot be taken of the examples, or TensorFlow failed.
    """
    declaration = analysis.declaration.whole(features)
    new = constants = find_constants(analysis, gathered)
    if analysis.former is not None:
        constants = {
            chain.name: analysis.former.constants(chain.renamed(renames), new.get(chain.name))
            for chain in analysis.declaration.analyzed
        }
    graph = graph_files(declaration, constants, features, renames)
    told = describe(declaration, constants, gathered, analysis.splits, renames)
    if analysis.former is not None:
        told = beside_former(told, constants, new, declaration, analysis.former, renames)
    files = {f"{naming.TRANSFORM_GRAPH}/{name}": data for name, data in graph.items()}
    return {**files, naming.TRANSFORM: told.to_json().encode()}


def beside_former(
    told: TransformFile,
    constants: Mapping[str, Constants],
    new: Mapping[str, Constants],
    declaration: Declaration,
    former: FormerGraph,
    renames: Renames,
) -> TransformFile:
    """What is said of constants that stayed, and of what these examples would have made of them."""
    drifts = {
        chain.renamed(renames): drift(constants[chain.name], new[chain.name])
        for chain in declaration.analyzed
        if chain.name in new
    }
    outputs = []
    for output in told.outputs:
        vocabulary = output.vocabulary
        if vocabulary is not None:
            vocabulary = replace(vocabulary, head=former.head(output.name))
        outputs.append(replace(output, vocabulary=vocabulary, drift=drifts.get(output.name, {})))
    return TransformFile(told.analyzed, tuple(outputs), former.name)


def transform_notices(files: Mapping[str, bytes]) -> list[str]:
    """What the user must be told of the files of a transform."""
    told = TransformFile.from_json(files[naming.TRANSFORM], naming.TRANSFORM)
    return [*drift_sentences(told), *(module_sentences(told.module) if told.module is not None else ())]


def describe(
    declaration: Declaration,
    constants: Mapping[str, Constants],
    gathered: Gathered,
    splits: tuple[str, ...],
    renames: Renames,
) -> TransformFile:
    """What was found, for people and for `inspect`."""
    files = vocabulary_files(declaration, renames)
    outputs = [
        TransformedOutput(
            name=chain.renamed(renames),
            feature=renames(chain.feature),
            steps=tuple(map(to_json, chain.steps)),
            constants=found.numbers if found.entries is None else {},
            vocabulary=_summary(found, files[chain.name]) if found.entries is not None else None,
        )
        for chain in declaration.chains
        for found in (constants.get(chain.name, Constants()),)
    ]
    return TransformFile({split: gathered.examples[split] for split in splits}, tuple(outputs))


def _summary(found: Constants, file: str) -> VocabularySummary:
    assert found.entries is not None
    head = found.entries.slice(0, HEAD).to_pydict()
    return VocabularySummary(
        f"{_ASSETS}/{file}",
        found.numbers["entries"],
        found.numbers["distinct"],
        tuple((value.decode(errors="backslashreplace"), count) for value, count in zip(head["value"], head["count"])),
        found.unknown,
    )
