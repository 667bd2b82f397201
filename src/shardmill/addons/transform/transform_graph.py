"""The transform graph of a version: its files, its description in transform.json, and the examples it makes."""

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from shardmill.addons.transform.analyzers import Constants, Gathered, find_constants, vocabulary_lines
from shardmill.addons.transform.graph_process import graph_process
from shardmill.addons.transform.preprocessing_declaration import Declaration, step_to_json
from shardmill.addons.transform.preprocessing_module import PreprocessingModule
from shardmill.addons.transform.preprocessing_sources import drift_notices, measure_drift
from shardmill.data.features import Features, Renames
from shardmill.metadata import file_names, schema, tfds_metadata
from shardmill.metadata.schema import from_pbtxt
from shardmill.transforms.analysis import StagedFiles
from shardmill.transforms.stores import storage

_JOB, _OUTPUT = "job.json", "transform_graph"  # as shardmill.addons.transform.tensorflow_graph calls them
TRANSFORM_FN = f"{file_names.TRANSFORM_GRAPH}/transform_fn"
_ASSETS = f"{TRANSFORM_FN}/assets"
_RAW_SCHEMA = f"{file_names.TRANSFORM_GRAPH}/metadata/schema.pbtxt"
_TRANSFORMED_SCHEMA = f"{file_names.TRANSFORM_GRAPH}/transformed_metadata/schema.pbtxt"
Apply = Callable[[Sequence[bytes]], pa.RecordBatch]


def vocabulary_files(declaration: Declaration, renames: Renames) -> dict[str, str]:
    """Return the file name of each vocabulary by output: its name, with `_` for characters that TFT does not allow."""
    found: dict[str, str] = {}
    for chain in declaration.analyzed_chains:
        if chain.needs == "vocabulary":
            name = base = re.sub(r"[^\w.\-]", "_", chain.output_name(renames), flags=re.ASCII)
            number = 1
            while name in found.values():
                number += 1
                name = f"{base}_{number}"
            found[chain.name] = name
    return found


def graph_files(
    declaration: Declaration, constants: Mapping[str, Constants], features: Features, renames: Renames
) -> dict[str, bytes]:
    """Return the files of the graph by their names relative to its folder; raise JobError if TensorFlow fails.

    `declaration` names all features, see Declaration.with_all_features. `constants` are by output.
    """
    files = vocabulary_files(declaration, renames)
    known = {feature.name: feature for feature in features}
    messages: dict[str, dict[str, Any]] = {}
    outputs = []
    for chain in declaration.chains:
        name = chain.output_name(renames)
        outputs.append(
            {"input": renames(chain.feature), "output": name, "steps": [step_to_json(step) for step in chain.steps]}
        )
        messages[name] = dict(constants[chain.name].numbers) if chain.name in constants else {}
        if chain.name in files:
            messages[name]["file"] = files[chain.name]
        if known[chain.feature].class_names:
            messages[name]["classes"] = len(known[chain.feature].class_names)
    job = {"schema": schema.to_pbtxt(renames.rename_features(features)), "outputs": outputs, "constants": messages}
    with graph_process() as process:
        for output, file in files.items():
            with open(process.folder / file, "wb") as opened:
                opened.writelines(vocabulary_lines(constants[output].entries))
        (process.folder / _JOB).write_text(json.dumps(job))
        process.run()
        root = process.folder / _OUTPUT
        return {
            path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
        }


def module_files(
    module: PreprocessingModule, graph: Mapping[str, bytes], schema: str, description: str, analyzed: Mapping[str, int]
) -> dict[str, bytes]:
    """Return the files of an analyzed module's graph by their names in the version directory.

    `graph` has TFT's files in `transform_fn/` and `transformed_metadata/`, by name relative to its folder. `schema` is
    the schema.pbtxt of raw examples, `description` the digest of TFT's findings, and `analyzed` counts examples.
    """
    files = _in_graph_folder(graph) | {_RAW_SCHEMA: schema.encode()}
    outputs = tuple(
        tfds_metadata.TransformedOutput(feature.name, "") for feature in from_pbtxt(files[_TRANSFORMED_SCHEMA].decode())
    )
    assets = tuple(_make_asset(name, files[name]) for name in sorted(files) if name.startswith(f"{_ASSETS}/"))
    content = tfds_metadata.TransformFile(
        analyzed, outputs, module=tfds_metadata.ModuleSummary(module.name, module.sha256, description, assets)
    )
    return {**files, file_names.TRANSFORM: content.to_json().encode()}


def _in_graph_folder(graph: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{file_names.TRANSFORM_GRAPH}/{name}": data for name, data in graph.items()}


def _make_asset(name: str, data: bytes) -> tfds_metadata.Asset:
    lines = data.split(b"\n")[: tfds_metadata.HEAD_ENTRIES]
    head = tuple(line.decode(errors="backslashreplace") for line in lines if line)
    return tfds_metadata.Asset(name, data.count(b"\n"), head)


def transform_files(analysis: Any, gathered: Gathered, features: Features, renames: Renames) -> dict[str, bytes]:
    """Return the files of a declared transform, a DeclaredAnalysis, by their names in the version directory.

    `gathered` is over all examples; `features` are those of raw examples, by input name.

    Raises:
        JobError: if constants cannot be computed from the examples, or TensorFlow fails.
    """
    declaration, previous = analysis.declaration.with_all_features(features), analysis.previous_graph
    new = constants = find_constants(analysis, gathered)
    if previous is not None:
        constants = {
            chain.name: previous.constants(chain.output_name(renames), new.get(chain.name))
            for chain in declaration.analyzed_chains
        }
    files = vocabulary_files(declaration, renames)
    outputs = []
    for chain in declaration.chains:
        name, found = chain.output_name(renames), constants.get(chain.name, Constants())
        output = tfds_metadata.TransformedOutput(name, renames(chain.feature), tuple(map(step_to_json, chain.steps)))
        if found.entries is None:
            output = replace(output, constants=found.numbers)
        else:
            vocabulary = _summarize_vocabulary(found.entries, found, files[chain.name])
            if previous is not None:
                vocabulary = replace(vocabulary, head=previous.output(name).vocabulary.head)
            output = replace(output, vocabulary=vocabulary)
        if previous is not None and chain.name in new:
            output = replace(output, drift=measure_drift(found, new[chain.name]))
        outputs.append(output)
    examples = {split: gathered.examples[split] for split in analysis.splits}
    content = tfds_metadata.TransformFile(examples, tuple(outputs), previous.name if previous is not None else "")
    graph = graph_files(declaration, constants, features, renames)
    return {**_in_graph_folder(graph), file_names.TRANSFORM: content.to_json().encode()}


def _summarize_vocabulary(entries: pa.Table, constants: Constants, file: str) -> tfds_metadata.VocabularySummary:
    head = entries.slice(0, tfds_metadata.HEAD_ENTRIES).to_pydict()
    return tfds_metadata.VocabularySummary(
        f"{_ASSETS}/{file}",
        constants.numbers["entries"],
        constants.numbers["distinct"],
        tuple((value.decode(errors="backslashreplace"), count) for value, count in zip(head["value"], head["count"])),
        constants.unknown_counts,
    )


def transform_notices(files: Mapping[str, bytes]) -> list[str]:
    """Return the notices about the files of a transform."""
    content = tfds_metadata.TransformFile.from_json(files[file_names.TRANSFORM], file_names.TRANSFORM)
    notices = list(drift_notices(content))
    if content.module is not None:
        notices.append(
            f"the transform graph is that of {content.module.name}: TensorFlow Transform adds floats up in the order in"
            " which they come, so analyzing the same examples again may give other last digits; the SHA-256 of what it"
            f" found is {content.module.found}"
        )
    return notices


class GraphFailedError(ValueError):
    """The graph fails on one of some examples; the message is TensorFlow's."""


def stage_graph(temporary: str, files: Mapping[str, bytes], raw_features: Features) -> StagedFiles:
    """Write the files of a graph below the job's `temporary` directory; raise OSError if they cannot be written.

    `raw_features` are the features of raw examples, by their names there.
    """
    # A random name keeps attempts apart
    folder = storage.join(storage.join(temporary, "transformed"), uuid.uuid4().hex)
    storage.write_all({storage.join(folder, name): data for name, data in files.items()})
    return StagedFiles(folder, tuple(files), transformed_features(raw_features, files))


def transformed_features(raw_features: Features, files: Mapping[str, bytes]) -> Features:
    """Return the features of transformed examples; unchanged ones keep their kind, classes and role.

    TFT's schema does not tell a single value that may be missing from a list of any length, so shapes are taken from
    the steps.
    """
    of_raw = {feature.name: feature for feature in raw_features}
    by_name = {feature.name: feature for feature in from_pbtxt(files[_TRANSFORMED_SCHEMA].decode())}
    found = []
    for output in tfds_metadata.TransformFile.from_json(files[file_names.TRANSFORM], file_names.TRANSFORM).outputs:
        feature, before = by_name[output.name], of_raw.get(output.feature or output.name)
        if before is not None and output.feature and not output.steps:
            found.append(replace(before, name=output.name))
            continue
        if not feature.is_dense and not output.feature:  # of a module, whose steps are unknown
            feature = replace(feature, shape=(None,))
        elif not feature.is_dense and before is not None:
            is_list = before.shape != () or any("tokenize" in step for step in output.steps)
            feature = replace(feature, shape=(None,) if is_list else (), required=is_list and before.required)
        role = before.role if before is not None and before.name == output.name else "input"
        found.append(replace(feature, kind="tensor", class_names=(), role=role))
    return tuple(found)


def transform_records(records: Sequence[bytes], apply: Apply) -> tuple[list[pa.RecordBatch], dict[int, str]]:
    """Apply a graph to serialized raw examples.

    Returns:
        The batches in order, and TensorFlow's message for each failed record by its index. These are found by halving
        the failing part until one record is left.
    """
    batches: list[pa.RecordBatch] = []
    failed: dict[int, str] = {}
    left = [(0, len(records))]
    while left:
        start, stop = left.pop()
        try:
            batches.append(apply(records[start:stop]))
        except GraphFailedError as error:
            if stop - start == 1:
                failed[start] = str(error)
            else:
                middle = (start + stop) // 2
                left += [(middle, stop), (start, middle)]
    return batches, failed
