"""Arrays whose first axis are examples: .npy, .npz and MNIST's idx files, with labels from a second array."""

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, check_mistake, read_back, write_files

TRAIN, TEST = 20, 6  # rows
IMAGES = np.random.default_rng(0).integers(0, 256, (TRAIN + TEST, 4, 3), np.uint8)
IDS = (np.arange(TRAIN + TEST) * 7 % 12).astype(np.int64)
PARTS = {"train": slice(0, TRAIN), "test": slice(TRAIN, None)}


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


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
MISTAKES: dict[str, tuple[dict[str, bytes], tuple[str, ...], str]] = {
    "no flag": (
        {"X_train.npy": X, "y_train.npy": Y},
        (),
        "'X_train.npy' (uint8, 20 x 4 x 3) and 'y_train.npy' (int64, 20) look like 20 examples and their labels;"
        " --stacked makes each row an example; --folders any (or label) makes each file one",
    ),
    ".npz without the flag": ({"a.npz": npz(x=IMAGES)}, (), "`shardmill arrays --stacked` reads"),
    "idx without the flag": (mnist(), (), "MNIST's format, which `shardmill arrays --stacked` reads"),
    "labels alone": ({"X_train.npy": X, "y_test.npy": Y}, ("--stacked",), "would be the labels of no array"),
    "other size": ({"X.npy": X, "y.npy": npy(IDS[:7])}, ("--stacked",), "'y.npy' (int64, 7) has another first size"),
    "two labels": ({"X.npy": X, "y.npy": Y, "labels.npy": Y}, ("--stacked",), "may both be the labels of 'X.npy'"),
    "one-hot": ({"X.npy": X, "y.npy": npy(np.eye(TRAIN))}, ("--stacked",), "numpy.argmax(labels, axis=1) makes ids"),
    "fractions": ({"X.npy": X, "y.npy": npy(IDS[:TRAIN] / 2)}, ("--stacked",), "which are no ids of classes from 0"),
    "other types": ({"X.npy": X, "Z.npy": npy(np.zeros((3, 4)))}, ("--stacked",), "rows of one type and shape"),
    "one without a split": ({"X_train.npy": X, "X.npy": X}, ("--stacked",), "'X_train.npy' has a split by its name"),
    "one without labels": ({"X.npy": X, "y.npy": Y, "a/X.npy": X}, ("--stacked",), "'X.npy' has labels by its name"),
    "pickles": ({"X.npy": npy(np.array([{}, {}], object))}, ("--stacked",), "X.npy: not an array of numbers"),
    "with a shape": ({"X.npy": X}, ("--stacked", "--shape", "3", "--dtype", "uint8"), "--stacked and --shape"),
    "few names": ({"X.npy": X, "y.npy": Y}, ("--stacked", "--labels_file", "{0}/few"), "--labels_file names 2 classes"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(run: Run, tmp_path: Path, case: str) -> None:
    files, flags, words = MISTAKES[case]
    write_files(tmp_path, {"few": b"a\nb\n"})
    folder = write_files(tmp_path / "in", files)
    given = [flag.format(tmp_path) for flag in flags]

    check_mistake(run("arrays", "--input", folder, "--output", tmp_path / "out", "--name", "n", *given), words)
    assert not (tmp_path / "out").exists()


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
