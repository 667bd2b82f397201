"""`shardmill arrays --shape None,3`: arrays whose first size differs."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, check_mistake, write_files
from tests.support.later import Later

tf, tfds = Later("tensorflow"), Later("tensorflow_datasets")


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def cloud(number: int, element: str = "float32") -> np.ndarray:
    """Points of which there are 1 to 12."""
    rng = np.random.default_rng(number)
    return (rng.random((1 + number * 5 % 12, 3)) * 100).astype(element)


CLOUDS = {f"{('car', 'tree')[n % 2]}/{n:02}.npy": cloud(n) for n in range(40)}


def make(run: Run, source: Path, output: Path, *flags: object) -> Path:
    done = run("arrays", "--input", source, "--output", output, "--name", "n", "--shape", "None,3", *flags)
    assert done.status == 0, done.err
    return output / "n"


def by_name(examples: Any) -> dict[str, np.ndarray]:
    return {bytes(one["filename"]).decode(): np.asarray(one["image"]) for one in examples}


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray] = CLOUDS) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 clouds of points, some in Fortran's order or in the other order of bytes."""
    files = {
        name: npy(np.asarray(array, ">f4" if number % 3 == 0 else "<f4", order="F" if number % 2 else "C"))
        for number, (name, array) in enumerate(CLOUDS.items())
    }
    return write_files(tmp_path_factory.mktemp("clouds"), files)


def test_every_reader(run: Run, source: Path, tmp_path: Path) -> None:
    directory = make(run, source, tmp_path, "--dtype", "float32", "--num_shards", 2)

    check(by_name(shardmill.examples(str(directory), "train")))
    info = tfds.builder_from_directory(str(directory / "1.0.0"))
    assert info.info.features["image"].shape == (None, 3)
    check(by_name(tfds.as_numpy(info.as_dataset("train"))))
    names = ["image", "filename"]
    single = shardmill.load(str(directory), "train", batch_size=None, features=names, supervised=False)
    check(by_name(single.as_numpy_iterator()))
    ragged = shardmill.load(str(directory), "train", batch_size=16, features=names, supervised=False, shuffle=False)
    assert ragged.element_spec["image"].shape.as_list() == [None, None, 3]
    assert ragged.element_spec["image"].ragged_rank == 1
    found = {}
    for batch in ragged:
        for name, array in zip(batch["filename"].numpy(), batch["image"], strict=True):
            found[name.decode()] = array.numpy()
    check(found)
    padded = shardmill.load(str(directory), "train", batch_size=16, pad=True, features=names, supervised=False)
    for batch in padded:
        longest = max(len(CLOUDS[name.decode()]) for name in batch["filename"].numpy())
        assert batch["image"].shape[1:] == (longest, 3)
        for name, array in zip(batch["filename"].numpy(), batch["image"].numpy(), strict=True):
            points = CLOUDS[name.decode()]
            np.testing.assert_array_equal(array[: len(points)], points)
            assert not array[len(points) :].any()
    turned = shardmill.load(str(directory), "train", batch_size=8, augment=lambda points: points * 2)
    assert sum(int(batch[1].shape[0]) for batch in turned) == len(CLOUDS)


def test_what_is_said_of_them(run: Run, source: Path, tmp_path: Path) -> None:
    directory = make(run, source, tmp_path, "--dtype", "float32") / "1.0.0"

    features = json.loads((directory / "features.json").read_text())["featuresDict"]["features"]
    tensor = {"shape": {"dimensions": ["-1", "3"]}, "dtype": "float32", "encoding": "bytes"}
    assert features["image"]["tensor"] == tensor
    assert 'tag: "shape:-1,3"' in (directory / "schema.pbtxt").read_text()
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["configuration"]["shape"] == [None, 3]
    stats = json.loads((directory / "stats.json").read_text())["splits"]["train"]["features"]["image"]
    assert stats["size_bytes"]["max"] == max(array.nbytes for array in CLOUDS.values())
    assert stats["values"]["max"] == max(float(array.max()) for array in CLOUDS.values())
    assert run("verify", directory).status == 0
    shown = run("inspect", directory)
    assert "float32 of 1" in shown.out or "float32 of 6" in shown.out, shown.out
    assert run("report", directory, "--output", tmp_path / "report.html").status == 0
    spec = shardmill.feature_spec(str(directory))
    assert spec["image"].shape == ()


@pytest.mark.parametrize("element", ["bool", "uint16", "complex64"])
def test_other_types(run: Run, tmp_path: Path, element: str) -> None:
    arrays = {f"a/{n}.npy": cloud(n, element) for n in range(5)}
    source = write_files(tmp_path / "in", {name: npy(array) for name, array in arrays.items()})
    directory = make(run, source, tmp_path, "--dtype", element)
    check(by_name(shardmill.examples(str(directory), "train")), arrays)
    names = ["image", "filename"]
    loaded = shardmill.load(str(directory), "train", batch_size=2, features=names, supervised=False)
    found = {}
    for batch in loaded:
        found.update({n.decode(): a.numpy() for n, a in zip(batch["filename"].numpy(), batch["image"], strict=True)})
    check(found, arrays)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (
            np.zeros((2, 4), np.float32),
            "float32 of 2 x 4; expected float32 of any number x 3, as --shape and --dtype say",
        ),
        (np.zeros(3, np.float32), "float32 of 3; expected float32 of any number x 3"),
        (np.zeros((1, 2, 3), np.float32), "float32 of 1 x 2 x 3; expected float32 of any number x 3"),
        (np.float32(3), "a single float32; expected float32 of any number x 3"),
        (np.zeros((2, 3), np.float64), "float64 of 2 x 3; expected float32 of any number x 3"),
        (np.zeros((0, 3), np.float32), "float32 of 0 x 3 holds no values"),
    ],
)
def test_a_wrong_shape_is_a_reject(run: Run, source: Path, tmp_path: Path, array: Any, said: str) -> None:
    files = {name: npy(array) for name, array in list(CLOUDS.items())[:3]}
    bad = write_files(tmp_path / "in", {**files, "car/bad.npy": npy(array)})
    directory = make(run, bad, tmp_path, "--dtype", "float32", "--max_reject_fraction", 0.5)
    (line,) = (directory / "1.0.0/rejects/rejects-00000-of-00001.jsonl").read_text().splitlines()
    assert json.loads(line)["source"] == "car/bad.npy"
    assert json.loads(line)["reason"].startswith(said)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--shape", "3,None", "--dtype", "float32"), "--shape: '3,None': expected no size but the first to be None"),
        (("--shape", "None,None", "--dtype", "float32"), "--shape: 'None,None': expected no size but the first to be"),
        (("--shape", "None,3"), "--shape and --dtype go together; --dtype is missing"),
        (("--shape", "None,x", "--dtype", "float32"), "is not a list of sizes from 1, such as 64,64 or None,3"),
    ],
)
def test_mistakes(run: Run, source: Path, tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    check_mistake(run("arrays", "--input", source, "--output", tmp_path, "--name", "n", *flags), said)


def test_bytes_that_are_no_whole_rows_are_found(run: Run, source: Path, tmp_path: Path) -> None:
    from shardmill.data.features import Feature
    from shardmill.data.kinds import kind_of

    feature = Feature("points", "bytes", "array", (None, 3), element="float32")
    (fault,) = kind_of(feature).find_value_faults(feature, [bytes(24), bytes(13)])
    assert fault == "feature 'points' holds 13 bytes; expected a multiple of 12"
    with pytest.raises(tf.errors.InvalidArgumentError, match="feature 'points' is an array of float32"):
        kind_of(feature).to_tensor(feature, tf.constant([bytes(24), bytes(13)]))
