"""Modules for --module_file, and what comes of one on another runner than the local one."""

import filecmp
from collections.abc import Sequence
from pathlib import Path

from tests.support.command import Run

TFT = "import tensorflow as tf\nimport tensorflow_transform as tft\ndef preprocessing_fn(inputs):\n"
CUSTOM = """
import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

class Longest(beam.CombineFn):
    def create_accumulator(self):
        return 0
    def add_input(self, longest, batch):
        return max(longest, *map(len, batch[0].ravel()))
    def merge_accumulators(self, found):
        return max(found)
    def extract_output(self, longest):
        return np.int64(longest)

@beam.ptransform_fn
def longest(inputs, extra_args):
    return [inputs | beam.CombineGlobally(Longest()).without_defaults()]

def preprocessing_fn(inputs):
    found, = tft.experimental.ptransform_analyzer([inputs["text"]], longest(None), [tf.int64], [[]])
    return {"share": tf.cast(tf.strings.length(inputs["text"]), tf.float32) / tf.cast(found, tf.float32)}
"""

_MODULE = """
import tensorflow_transform as tft
from models import features

def preprocessing_fn(inputs):
    return {
        "id": tft.scale_to_0_1(inputs["id"]),
        "word": tft.compute_and_apply_vocabulary(inputs["word"], vocab_filename=features.FILE),
    }
"""


def write_package(module: Path, text: str = CUSTOM) -> None:
    """Write a module like CUSTOM whose analyzer is in a package beside it, as projects of TFX are laid out."""
    analyzer, function = text.split("def preprocessing_fn")
    package = module.parent / "analyzers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .lengths import longest")
    (package / "lengths.py").write_text(analyzer)
    imports = "import tensorflow as tf\nimport tensorflow_transform as tft\nfrom analyzers import longest\n"
    module.write_text(f"{imports}def preprocessing_fn{function}")


def check_module(run: Run, folder: Path, flags: Sequence[str]) -> None:
    """Check that what a module asks for is analyzed on the runner that `flags` say, which gives the shards and the
    vocabulary of the local one."""
    (folder / "a.csv").write_text("id,word\n" + "".join(f"{n},w{n * n % 7}\n" for n in range(900)))
    (folder / "models").mkdir()
    (folder / "models/features.py").write_text("FILE = 'words'")
    (folder / "models/custom.py").write_text(_MODULE)
    words = ["csv", "--input", folder / "a.csv", "--name", "tiny", "--module_file", folder / "models/custom.py"]
    for name, more in (("local", ()), ("there", flags)):
        result = run(*words, "--output", folder / name, *more)
        assert result.status == 0, result.err
    local, there = (folder / name / "tiny" / "1.0.0" for name in ("local", "there"))
    names = sorted(path.name for path in local.glob("tiny-*"))
    assert names
    assert filecmp.cmpfiles(local, there, names, shallow=False) == (names, [], [])
    assets = "transform_graph/transform_fn/assets/words"
    assert (there / assets).read_bytes() == (local / assets).read_bytes()
    # By how often they are there; of equal ones TFT has the later first
    assert (there / assets).read_text().splitlines() == ["w4", "w2", "w1", "w0"]
