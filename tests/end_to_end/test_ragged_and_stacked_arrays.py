"""`shardmill arrays` whose first axis differs (--shape None,3) or holds examples (--stacked): .npy, .npz and MNIST's
idx files, with labels from a second array."""

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, check_mistake, npy, read_back, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later

tf, tfds = Later("tensorflow"), Later("tensorflow_datasets")


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


BAD = [
    (np.zeros((2, 4), np.float32), "float32 of 2 x 4; expected float32 of any number x 3, as --shape and --dtype say"),
    (np.zeros(3, np.float32), "float32 of 3; expected float32 of any number x 3"),
    (np.zeros((1, 2, 3), np.float32), "float32 of 1 x 2 x 3; expected float32 of any number x 3"),
    (np.float32(3), "a single float32; expected float32 of any number x 3"),
    (np.zeros((2, 3), np.float64), "float64 of 2 x 3; expected float32 of any number x 3"),
    (np.zeros((0, 3), np.float32), "float32 of 0 x 3 holds no values"),
]


def test_a_wrong_shape_is_a_reject(run: Run, tmp_path: Path) -> None:
    files = {name: npy(array) for name, array in list(CLOUDS.items())[:3]}
    bad = {f"car/bad-{number}.npy": npy(array) for number, (array, _) in enumerate(BAD)}
    source = write_files(tmp_path / "in", files | bad)
    directory = make(run, source, tmp_path, "--dtype", "float32", "--max_reject_fraction", 0.7)
    lines = (directory / "1.0.0/rejects/rejects-00000-of-00001.jsonl").read_text().splitlines()
    reasons = {reject["source"]: reject["reason"] for reject in map(json.loads, lines)}
    assert reasons.keys() == bad.keys()
    for name, (_, said) in zip(bad, BAD, strict=True):
        assert reasons[name].startswith(said)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--dtype float32 --shape 3,None", "--shape: '3,None': expected no size but the first to be None"),
        ("--dtype float32 --shape None,None", "--shape: 'None,None': expected no size but the first to be"),
        ("--shape None,3", "--shape and --dtype go together; --dtype is missing"),
        ("--dtype float32 --shape None,x", "is not a list of sizes from 1, such as 64,64 or None,3"),
    ],
)
def test_mistakes(jobs: Jobs, flags: str, said: str) -> None:
    jobs.refuse(f"arrays {flags}", said, files={"a.npy": npy(cloud(1))})


def test_bytes_that_are_no_whole_rows_are_found(run: Run, source: Path, tmp_path: Path) -> None:
    from shardmill.data.features import Feature
    from shardmill.data.kinds import kind_of

    feature = Feature("points", "bytes", "array", (None, 3), element="float32")
    (fault,) = kind_of(feature).find_value_faults(feature, [bytes(24), bytes(13)])
    assert fault == "feature 'points' holds 13 bytes; expected a multiple of 12"
    with pytest.raises(tf.errors.InvalidArgumentError, match="feature 'points' is an array of float32"):
        kind_of(feature).to_tensor(feature, tf.constant([bytes(24), bytes(13)]))


TRAIN, TEST = 20, 6  # rows
IMAGES = np.random.default_rng(0).integers(0, 256, (TRAIN + TEST, 4, 3), np.uint8)
IDS = (np.arange(TRAIN + TEST) * 7 % 12).astype(np.int64)
PARTS = {"train": slice(0, TRAIN), "test": slice(TRAIN, None)}


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def idx(array: np.ndarray) -> bytes:
    """A file in the format of http://yann.lecun.com/exdb/mnist, of uint8."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def of_each(name: str, values: np.ndarray, encode: Any) -> dict[str, bytes]:
    return {name.format(split): encode(values[part]) for split, part in PARTS.items()}


def mnist(images: np.ndarray = IMAGES) -> dict[str, bytes]:
    small = IDS.astype(np.uint8)
    files = of_each("{}-images-idx3-ubyte", images, idx) | of_each("{}-labels-idx1-ubyte", small, idx)
    files = {name.replace("test", "t10k"): data for name, data in files.items()}
    return {
        f"{name}.gz" if "images" in name else name: gzip.compress(data) if "images" in name else data
        for name, data in files.items()
    }


CASES: dict[str, dict[str, bytes]] = {
    "X_train.npy": of_each("X_{}.npy", IMAGES, npy) | of_each("y_{}.npy", IDS, npy),
    "train_images.npy": of_each("{}_images.npy", IMAGES, npy) | of_each("{}_labels.npy", IDS[:, None], npy),
    "train/data.npy": of_each("{}/data.npy", IMAGES, npy) | of_each("{}/labels.npy", IDS, npy),
    "compressed": of_each("x_{}.npy.gz", IMAGES, lambda of: gzip.compress(npy(of))) | of_each("y_{}.npy", IDS, npy),
    "npz": {
        "mnist.npz": npz(
            x_train=IMAGES[:TRAIN], y_train=IDS[:TRAIN].astype(np.uint8), x_test=IMAGES[TRAIN:], y_test=IDS[TRAIN:]
        )
    },
    "idx": mnist(),
}  # fmt: skip


CASES_OF_TOMORROW: dict[str, dict[str, bytes]] = {
    "X_train.npy": of_each("X_{}.npy", 255 - IMAGES, npy) | of_each("y_{}.npy", IDS, npy),
    "compressed": of_each("x_{}.npy.gz", 255 - IMAGES, lambda of: gzip.compress(npy(of)))
    | of_each("y_{}.npy", IDS, npy),
    "npz": {
        "mnist.npz": npz(
            x_train=255 - IMAGES[:TRAIN], y_train=IDS[:TRAIN], x_test=255 - IMAGES[TRAIN:], y_test=IDS[TRAIN:]
        )
    },
    "idx": mnist(255 - IMAGES),
}


@pytest.mark.parametrize("case", CASES)
def test_each_row_is_an_example(run: Run, tmp_path: Path, case: str) -> None:
    folder = write_files(tmp_path / "in", CASES[case])

    done = run("arrays", "--input", folder, "--stacked", "--output", tmp_path / "out", "--name", "n")

    assert done.status == 0, done.err
    assert done.out.count("NOTE: each row of ") == 2
    for split, part in PARTS.items():
        rows = {}
        for example in shardmill.examples(str(tmp_path / "out" / "n"), split):
            rows[int(bytes(example["filename"]).rpartition(b"/")[2])] = example
        assert sorted(rows) == list(range(len(IDS[part])))
        for number, (image, label) in enumerate(zip(IMAGES[part], IDS[part], strict=True)):
            assert np.array_equal(rows[number]["image"], image)
            assert rows[number]["image"].dtype == np.uint8
            assert rows[number]["label"] == label
    (feature,) = (item for item in read_back(tmp_path / "out" / "n").dataset.manifest.features if item.name == "label")
    assert feature.class_names == tuple(map(str, range(12)))


def convert(run: Run, folder: Path, files: dict[str, bytes], *flags: object) -> Any:
    write_files(folder / "in", files)
    done = run("arrays", "--input", folder / "in", "--output", folder / "out", "--name", "n", *flags)
    assert done.status == 0, done.err
    return read_back(folder / "out" / "n")


def test_names_of_classes(run: Run, tmp_path: Path) -> None:
    words = np.array(["cat", "dog"] * 10)
    files = {"X.npy": npy(IMAGES[:TRAIN]), "y.npy": npy(words)}
    texts = convert(run, tmp_path / "texts", files, "--stacked", "--splits", "train=0.5,test=0.5")
    assert {texts.label_of(f"X.npy/{row}") for row in range(0, TRAIN, 2)} == {"cat"}
    assert set(texts.splits) == {"train", "test"}

    names = write_files(tmp_path, {"names.txt": "".join(f"n{number}\n" for number in range(12)).encode()})
    files = {"X.npy": npy(IMAGES[:TRAIN]), "y.npy": npy(IDS[:TRAIN])}
    named = convert(run, tmp_path / "named", files, "--stacked", "--labels_file", names / "names.txt")
    assert [named.label_of(f"X.npy/{row}") for row in range(TRAIN)] == [f"n{label}" for label in IDS[:TRAIN]]


@pytest.mark.parametrize("case", ["X_train.npy", "compressed", "npz", "idx"])
def test_a_later_job_of_a_process_reads_the_files_as_they_are_then(run: Run, tmp_path: Path, case: str) -> None:
    for number, files in enumerate((CASES[case], CASES_OF_TOMORROW[case])):
        folder = write_files(tmp_path / "in", files)
        done = run("arrays", "--input", folder, "--stacked", "--output", tmp_path / str(number), "--name", "n")
        assert done.status == 0, done.err
    for example in shardmill.examples(str(tmp_path / "1" / "n")):
        row = int(bytes(example["filename"]).rpartition(b"/")[2])
        assert np.array_equal(example["image"], 255 - IMAGES[row])


def test_rows_without_labels(run: Run, tmp_path: Path) -> None:
    values = IMAGES.astype(">f4") / 2
    contents = convert(run, tmp_path, {"scans.npy": npy(np.asfortranarray(values))}, "--stacked")

    assert len(contents.splits["train"]) == len(values)
    raw = contents.example("scans.npy/7")["image"][0]
    assert np.array_equal(np.frombuffer(bytes(raw), "<f4").reshape(4, 3), values[7])


X, Y = npy(IMAGES[:TRAIN]), npy(IDS[:TRAIN])
MISTAKES: list[tuple[dict[str, bytes], str, str]] = [
    (
        {"X_train.npy": X, "y_train.npy": Y},
        "",
        "'X_train.npy' (uint8, 20 x 4 x 3) and 'y_train.npy' (int64, 20) look like 20 examples and their labels;"
        " --stacked makes each row an example; --folders any (or label) makes each file one",
    ),
    ({"a.npz": npz(x=IMAGES)}, "", "`shardmill arrays --stacked` reads"),
    (mnist(), "", "MNIST's format, which `shardmill arrays --stacked` reads"),
    ({"X_train.npy": X, "y_test.npy": Y}, "--stacked", "would be the labels of no array"),
    ({"X.npy": X, "y.npy": npy(IDS[:7])}, "--stacked", "'y.npy' (int64, 7) has another first size"),
    ({"X.npy": X, "y.npy": Y, "labels.npy": Y}, "--stacked", "may both be the labels of 'X.npy'"),
    ({"X.npy": X, "y.npy": npy(np.eye(TRAIN))}, "--stacked", "numpy.argmax(labels, axis=1) makes ids"),
    ({"X.npy": X, "y.npy": npy(IDS[:TRAIN] / 2)}, "--stacked", "which are no ids of classes from 0"),
    ({"X.npy": X, "Z.npy": npy(np.zeros((3, 4)))}, "--stacked", "rows of one type and shape"),
    ({"X_train.npy": X, "X.npy": X}, "--stacked", "'X_train.npy' has a split by its name"),
    ({"X.npy": X, "y.npy": Y, "a/X.npy": X}, "--stacked", "'X.npy' has labels by its name"),
    ({"X.npy": npy(np.array([{}, {}], object))}, "--stacked", "X.npy: not an array of numbers"),
    ({"X.npy": X}, "--stacked --shape 3 --dtype uint8", "--stacked and --shape"),
    ({"X.npy": X, "y.npy": Y, "../few": b"a\nb\n"}, "--stacked --labels_file few", "--labels_file names 2 classes"),
]


@pytest.mark.parametrize(("files", "flags", "said"), MISTAKES, ids=[said for _, _, said in MISTAKES])
def test_mistakes_in_stacked_arrays(jobs: Jobs, files: dict[str, bytes], flags: str, said: str) -> None:
    jobs.refuse(f"arrays {flags}", said, files=files)


def test_the_other_reading(run: Run, tmp_path: Path) -> None:
    """Both arrays as examples, of which one is a reject."""
    files = {"X_train.npy": X, "y_train.npy": X}
    contents = convert(run, tmp_path, files, "--folders", "any")
    assert sorted(contents.records) == ["X_train.npy", "y_train.npy"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.mat", "MATLAB's format, which scipy.io.loadmat reads"),
        ("a.h5", "HDF5, which h5py reads"),
        ("a.nii.gz", "a NIfTI volume, which nibabel reads"),
        ("a.dcm", "a DICOM image, which pydicom reads"),
        ("a.mp4", "a video: ffmpeg -i FILE frames/%06d.jpg makes images"),
        ("a.mp3", "compressed audio: ffmpeg -i FILE NEW.wav makes what"),
    ],
)
@pytest.mark.parametrize("command", ["arrays", "audio"])
def test_formats_of_others_are_named(run: Run, tmp_path: Path, command: str, name: str, words: str) -> None:
    folder = write_files(tmp_path / "in", {name: b"data"})

    done = run(command, "--input", folder, "--output", tmp_path / "out", "--name", "n")

    check_mistake(done, words)
    assert "a glob" not in done.err
