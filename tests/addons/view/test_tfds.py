"""Data sets that builders of TFDS write, as those who know neither the builder nor shardmill's manifest have them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.addons.view.view_command import open_view
from tests.support.command import Run
from tests.support.later import Later

tfds = Later("tensorflow_datasets")
pytestmark = pytest.mark.slow  # they import TFDS

EPISODE = {"observation": {"pose": np.arange(3, dtype=np.float32)}, "reward": np.float32(0.5), "is_last": False}
NAMES = ("ant", "bee")


def features() -> Any:
    """Return what TFDS's own builders are made of: detection, sound, text, video, episodes."""
    of = tfds.features
    step = {"observation": {"pose": of.Tensor(shape=(3,), dtype=np.float32)}, "reward": np.float32, "is_last": np.bool_}
    boxes = {"bbox": of.BBoxFeature(), "label": of.ClassLabel(names=NAMES)}
    return of.FeaturesDict(
        {
            "image": of.Image(shape=(None, None, 3)),
            "objects": of.Sequence(boxes),
            "speech": of.Audio(sample_rate=8000, dtype=np.int16),
            "words": of.Sequence(of.Text()),
            "video": of.Video(shape=(None, 4, 6, 3)),
            "steps": of.Dataset(step),
        }
    )


def rows() -> Iterator[tuple[int, dict[str, Any]]]:
    picture = np.zeros((12, 16, 3), np.uint8)
    for row in range(7):
        box = {"bbox": tfds.features.BBox(0.1, 0.2, 0.5, 0.75), "label": NAMES[row % 2]}
        yield (
            row,
            {
                "image": picture,
                "objects": [box] * (row % 3),
                "speech": np.arange(40, dtype=np.int16),
                "words": ["one", "two"][: row % 3],
                "video": np.zeros((2 + row % 2, 4, 6, 3), np.uint8),
                "steps": [EPISODE] * (1 + row % 4),
            },
        )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tfds")

    base: Any = tfds.core.GeneratorBasedBuilder

    class Zoo(base):
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = folder

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(builder=self, features=features())

        def _split_generators(self, _: Any) -> Any:
            return {"train": rows(), "test": rows()}

        def _generate_examples(self) -> Any:
            return rows()

    builder = Zoo(data_dir=str(folder))
    builder.download_and_prepare()
    return Path(builder.data_dir)


def test_inspect_names_each_feature(written: Path, run: Run) -> None:
    said = run("inspect", written).out
    for words in ("14 records (train 7, test 7)", "no damaged place", "boxes (top, left", "class id", "UTF-8 text"):
        assert words in said
    for name in ("image", "objects/bbox", "speech", "words", "video", "steps/observation/pose", "steps/reward"):
        assert f"\n{name} " in said
    assert run("verify", written).status == 0


def test_readers_and_the_page_take_it(written: Path) -> None:
    found = list(shardmill.examples(written, "train"))
    assert sorted(len(example["steps/reward"]) for example in found) == [1, 1, 2, 2, 3, 3, 4]
    assert {len(example["objects/bbox"]) for example in found} == {0, 1, 2}
    server = open_view(str(written), None, 0)
    info = server.answer("info", {})[0].decode()
    shown = server.answer("examples", {"split": "test", "number": "0"})[0].decode()
    sound, kind = server.answer("media", {"split": "test", "number": "0", "name": "speech"})
    assert '"records": 7' in info
    assert shown.count('"number":') == 7
    assert "ant" in shown
    assert kind == "audio/wav"
    assert sound[24:28] == (8000).to_bytes(4, "little")  # the rate that features.json says
