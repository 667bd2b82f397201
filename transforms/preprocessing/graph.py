"""The transform graph of a declaration and its constants: the bytes of the files that TensorFlow Transform writes."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shardmill.errors import JobError
from shardmill.features.feature import Features
from shardmill.features.renames import Renames
from shardmill.metadata import schema
from transforms.preprocessing.constants import Constants
from transforms.preprocessing.counted import lines
from transforms.preprocessing.declaration import Declaration
from transforms.preprocessing.steps import to_json

_MODULE = "transforms.preprocessing.tensorflow_graph"
_JOB, _OUTPUT = "job.json", "transform_graph"  # as that module calls them
# TFT is of the older Keras, and TensorFlow would import the newer one beside, which takes as long as all else.
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_USE_LEGACY_KERAS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONHASHSEED": "0",
}
# What TensorFlow and Keras import wherever it is installed, for conversions that nobody asks for here: half of the time
_UNUSED = ("IPython", "PIL", "h5py", "jax", "matplotlib", "pandas", "scipy", "sklearn", "torch")
_PROGRAM = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({_UNUSED!r}))
runpy.run_module({_MODULE!r}, run_name="__main__")
"""
_SAID = 500  # letters of what a failed process said


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
    with tempfile.TemporaryDirectory(prefix="shardmill-transform-") as temporary:
        folder = Path(temporary)
        for output, file in files.items():
            with open(folder / file, "wb") as opened:
                opened.writelines(lines(constants[output].entries))
        (folder / _JOB).write_text(json.dumps(job))
        _run(folder)
        root = folder / _OUTPUT
        return {
            path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
        }


def _run(folder: Path) -> None:
    """Run the module that imports TensorFlow, in a process of its own."""
    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM],  # -P: a vocabulary may be called numpy.py
        cwd=folder,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2][-_SAID:]
        raise JobError(
            f"--transform: TensorFlow Transform could not write the graph (exit status {done.returncode}): {said}"
        )
