"""The transform graph of a declaration and its constants: the bytes of the files that TensorFlow Transform writes."""

import json
import re
from collections.abc import Mapping
from typing import Any

from shardmill.features.feature import Features
from shardmill.features.renames import Renames
from shardmill.metadata import schema
from shardmill.transforms.preprocessing.constants import Constants
from shardmill.transforms.preprocessing.counted import lines
from shardmill.transforms.preprocessing.declaration import Declaration
from shardmill.transforms.preprocessing.graph_process import graph_process
from shardmill.transforms.preprocessing.steps import to_json

_JOB, _OUTPUT = "job.json", "transform_graph"  # as shardmill.transforms.preprocessing.tensorflow_graph calls them


def vocabulary_files(declaration: Declaration, renames: Renames) -> dict[str, str]:
    """The names of the vocabularies' files by output: the output's, with `_` for what TFT takes in none."""
    found: dict[str, str] = {}
    for chain in declaration.analyzed:
        if chain.needs == "vocabulary":
            name = base = re.sub(r"[^\w.\-]", "_", chain.renamed(renames), flags=re.ASCII)
            number = 1
            while name in found.values():
                number += 1
                name = f"{base}_{number}"
            found[chain.name] = name
    return found


def graph_files(
    declaration: Declaration, constants: Mapping[str, Constants], features: Features, renames: Renames
) -> dict[str, bytes]:
    """The files of the graph, by their names relative to its folder.

    Args:
      declaration: whole, see `Declaration.whole`.
      constants: by output.
      features: of raw examples, by the names of the input.
      renames: what they are called in examples.

    Raises:
      JobError: TensorFlow failed.
    """
    files = vocabulary_files(declaration, renames)
    known = {feature.name: feature for feature in features}
    told: dict[str, dict[str, Any]] = {}
    for chain in declaration.chains:
        name = chain.renamed(renames)
        told[name] = dict(constants[chain.name].numbers) if chain.name in constants else {}
        if chain.name in files:
            told[name]["file"] = files[chain.name]
        if known[chain.feature].class_names:
            told[name]["classes"] = len(known[chain.feature].class_names)
    job = {
        "schema": schema.to_pbtxt(renames.features(features)),
        "outputs": [
            {
                "input": renames(chain.feature),
                "output": chain.renamed(renames),
                "steps": [to_json(step) for step in chain.steps],
            }
            for chain in declaration.chains
        ],
        "constants": told,
    }
    with graph_process() as process:
        for output, file in files.items():
            with open(process.folder / file, "wb") as opened:
                opened.writelines(lines(constants[output].entries))
        (process.folder / _JOB).write_text(json.dumps(job))
        process.run()
        root = process.folder / _OUTPUT
        return {
            path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
        }
