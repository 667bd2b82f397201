"""`shardmill arrays` whose first axis differs (--shape None,3) or holds examples (--stacked): .npy, .npz and MNIST's
idx files, with labels from a second array."""

import gzip
import io
import struct
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, npy
from tests.support.jobs import Jobs
from tests.support.later import Later

tf, tfds = Later("tensorflow"), Later("tensorflow_datasets")


def cloud(number: int, element: str = "float32") -> np.ndarray:
    """Points of which there are 1 to 12."""
    rng = np.random.default_rng(number)
    return (rng.random((1 + number * 5 % 12, 3)) * 100).astype(element)


CLOUDS = {f"{('car', 'tree')[n % 2]}/{n:02}.npy": cloud(n) for n in range(40)}


RAGGED = "arrays --shape None,3 --dtype"


def by_name(examples: Any) -> dict[str, np.ndarray]:
    return {bytes(one["filename"]).decode(): np.asarray(one["image"]) for one in examples}


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray] = CLOUDS) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.slow
def test_every_reader(jobs: Jobs, run: Run) -> None:
    """40 clouds of points, some in Fortran's order or in the other order of bytes."""
    files = {
        name: npy(np.asarray(array, ">f4" if number % 3 == 0 else "<f4", order="F" if number % 2 else "C"))
        for number, (name, array) in enumerate(CLOUDS.items())
    }
    built = jobs.build(f"{RAGGED} float32 --num_shards 2", files=files)
    directory = built.directory

    check(by_name(shardmill.examples(directory, "train")))
    info = tfds.builder_from_directory(directory)
    assert info.info.features["image"].shape == (None, 3)
    check(by_name(tfds.as_numpy(info.as_dataset("train"))))
    options: dict[str, Any] = {"features": ["image", "filename"], "supervised": False}
    check(by_name(shardmill.load(directory, "train", batch_size=None, **options).as_numpy_iterator()))
    ragged = shardmill.load(directory, "train", batch_size=16, shuffle=False, **options)
    assert ragged.element_spec["image"].shape.as_list() == [None, None, 3]
    assert ragged.element_spec["image"].ragged_rank == 1
    check(rows_of(ragged))
    for batch in shardmill.load(directory, "train", batch_size=16, pad=True, **options):
        longest = max(len(CLOUDS[name.decode()]) for name in batch["filename"].numpy())
        assert batch["image"].shape[1:] == (longest, 3)
        for name, array in zip(batch["filename"].numpy(), batch["image"].numpy(), strict=True):
            points = CLOUDS[name.decode()]
            np.testing.assert_array_equal(array[: len(points)], points)
            assert not array[len(points) :].any()
    turned = shardmill.load(directory, "train", batch_size=8, augment=lambda points: points * 2)
    assert sum(int(batch[1].shape[0]) for batch in turned) == len(CLOUDS)

    tensor = {"shape": {"dimensions": ["-1", "3"]}, "dtype": "float32", "encoding": "bytes"}
    assert built.json("features.json")["featuresDict"]["features"]["image"]["tensor"] == tensor
    assert 'tag: "shape:-1,3"' in (directory / "schema.pbtxt").read_text()
    assert built.manifest.configuration["shape"] == [None, 3]
    assert built.stats["image"]["size_bytes"]["max"] == max(array.nbytes for array in CLOUDS.values())
    assert built.stats["image"]["values"]["max"] == max(float(array.max()) for array in CLOUDS.values())
    assert run("verify", directory).status == 0
    shown = run("inspect", directory).out
    assert "float32 of 1" in shown or "float32 of 6" in shown, shown
    assert run("report", directory, "--output", jobs.folder / "report.html").status == 0
    assert shardmill.feature_spec(directory)["image"].shape == ()


def rows_of(batches: Any) -> dict[str, np.ndarray]:
    return {
        name.decode(): array.numpy()
        for batch in batches
        for name, array in zip(batch["filename"].numpy(), batch["image"], strict=True)
    }


BAD = [
    (np.zeros((2, 4), np.float32), "float32 of 2 x 4; expected float32 of any number x 3, as --shape and --dtype say"),
    (np.zeros(3, np.float32), "float32 of 3; expected float32 of any number x 3"),
    (np.zeros((1, 2, 3), np.float32), "float32 of 1 x 2 x 3; expected float32 of any number x 3"),
    (np.float32(3), "a single float32; expected float32 of any number x 3"),
    (np.zeros((2, 3), np.float64), "float64 of 2 x 3; expected float32 of any number x 3"),
    (np.zeros((0, 3), np.float32), "float32 of 0 x 3 holds no values"),
]


def test_a_wrong_shape_is_a_reject(jobs: Jobs) -> None:
    files = {name: npy(array) for name, array in list(CLOUDS.items())[:3]}
    bad = {f"car/bad-{number}.npy": npy(array) for number, (array, _) in enumerate(BAD)}
    reasons = jobs.build(f"{RAGGED} float32 --max_reject_fraction 0.7", files=files | bad).reasons
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


@pytest.mark.slow
def test_bytes_that_are_no_whole_rows_are_found() -> None:
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
    "npz": {
        "mnist.npz": npz(
            x_train=255 - IMAGES[:TRAIN], y_train=IDS[:TRAIN], x_test=255 - IMAGES[TRAIN:], y_test=IDS[TRAIN:]
        )
    },
    "idx": mnist(255 - IMAGES),
}


@pytest.mark.parametrize("case", CASES)
def test_each_row_is_an_example(jobs: Jobs, case: str) -> None:
    built = jobs.build("arrays --stacked", files=CASES[case])

    assert built.said.count("NOTE: each row of ") == 2
    for split, part in PARTS.items():
        rows = {int(bytes(one["filename"]).rpartition(b"/")[2]): one for one in built.examples(split)}
        assert sorted(rows) == list(range(len(IDS[part])))
        for number, (image, label) in enumerate(zip(IMAGES[part], IDS[part], strict=True)):
            assert np.array_equal(rows[number]["image"], image)
            assert rows[number]["image"].dtype == np.uint8
            assert rows[number]["label"] == label
    (feature,) = (feature for feature in built.manifest.features if feature.name == "label")
    assert feature.class_names == tuple(map(str, range(12)))


def test_names_of_classes(jobs: Jobs) -> None:
    files = {"X.npy": npy(IMAGES[:TRAIN]), "y.npy": npy(np.array(["cat", "dog"] * 10))}
    texts = jobs.build("arrays --stacked --splits train=0.5,test=0.5", files=files).contents
    assert {texts.label_of(f"X.npy/{row}") for row in range(0, TRAIN, 2)} == {"cat"}
    assert set(texts.splits) == {"train", "test"}

    files = {"y.npy": npy(IDS[:TRAIN]), "../names": "".join(f"n{number}\n" for number in range(12)).encode()}
    named = jobs.build("arrays --stacked --labels_file names --output b", files=files).contents
    assert [named.label_of(f"X.npy/{row}") for row in range(TRAIN)] == [f"n{label}" for label in IDS[:TRAIN]]


@pytest.mark.parametrize("case", ["npz", "idx"])
def test_a_later_job_of_a_process_reads_the_files_as_they_are_then(jobs: Jobs, case: str) -> None:
    jobs.build("arrays --stacked", files=CASES[case])
    for example in jobs.build("arrays --stacked --output b", files=CASES_OF_TOMORROW[case]).examples():
        row = int(bytes(example["filename"]).rpartition(b"/")[2])
        assert np.array_equal(example["image"], 255 - IMAGES[row])


def test_rows_without_labels(jobs: Jobs) -> None:
    values = IMAGES.astype(">f4") / 2
    built = jobs.build("arrays --stacked", files={"scans.npy": npy(np.asfortranarray(values))})
    assert built.splits == {"train": len(values)}
    raw = built.contents.example("scans.npy/7")["image"][0]
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
    ({"X.npy": npz(x=IDS)}, "--stacked", "as in a .npz file, but its name does not end in .npz"),
    ({"X.npy": X}, "--stacked --shape 3 --dtype uint8", "--stacked and --shape"),
    ({"X.npy": X, "y.npy": Y, "../few": b"a\nb\n"}, "--stacked --labels_file few", "--labels_file names 2 classes"),
]


@pytest.mark.parametrize(("files", "flags", "said"), MISTAKES, ids=[said for _, _, said in MISTAKES])
def test_mistakes_in_stacked_arrays(jobs: Jobs, files: dict[str, bytes], flags: str, said: str) -> None:
    jobs.refuse(f"arrays {flags}", said, files=files)


@pytest.mark.parametrize("pattern", ["z", "a.npz/z"])
def test_an_array_of_a_file_is_excluded_as_a_file_is(jobs: Jobs, pattern: str) -> None:
    files = {"a.npz": npz(x=IMAGES[:TRAIN], y=IDS[:TRAIN], z=IDS)}
    jobs.refuse("arrays --stacked", "'a.npz/z' has none; rename or --exclude one", files=files)
    jobs.refuse("arrays --stacked --exclude w", "'a.npz/z' has none", files=files)
    built = jobs.build(f"arrays --stacked --exclude {pattern} --exclude v")
    assert built.splits == {"train": TRAIN}
    assert f"passed over 1 array that --exclude {pattern} leaves out, such as 'a.npz/z'" in built.said
    assert "1 --exclude pattern without a file, such as 'v'" in built.said


def test_the_other_reading(jobs: Jobs) -> None:
    """Both arrays are examples."""
    built = jobs.build("arrays --folders any", files={"X_train.npy": X, "y_train.npy": X})
    assert sorted(built.contents.records) == ["X_train.npy", "y_train.npy"]


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("arrays", "a.mat", "MATLAB's format, which scipy.io.loadmat reads"),
        ("audio", "a.h5", "HDF5, which h5py reads"),
        ("arrays", "a.nii.gz", "a NIfTI volume, which nibabel reads"),
        ("audio", "a.dcm", "a DICOM image, which pydicom reads"),
        ("images", "a.fits", "a FITS image, which astropy reads"),
        ("arrays", "a.mp4", "a video: ffmpeg -i FILE frames/%06d.jpg makes images"),
        ("audio", "a.wma", "compressed audio: ffmpeg -i FILE NEW.wav makes what"),
        *(("audio", f"a.{suffix}", "`shardmill audio --decode_audio` reads") for suffix in ("mp3", "flac", "au")),
    ],
)
def test_formats_of_others_are_named(jobs: Jobs, command: str, name: str, words: str) -> None:
    jobs.refuse(command, words, files={name: b"data"})
    assert "a glob" not in jobs.run(command).err


@pytest.mark.parametrize("array", [np.array([{}, None]), np.array(["a", "bc"]), np.zeros(2, "f4,i4")], ids=str)
def test_arrays_that_are_no_numbers_are_not_declared_as_numbers(jobs: Jobs, array: np.ndarray) -> None:
    jobs.write({"a.npy": npy(array)})
    said = jobs.run("arrays").err
    assert "only numbers and booleans can be read" in said
    assert "--shape" not in said


@pytest.mark.parametrize(
    ("content", "words"), [(bytes(128) + b"DICM", "a DICOM image"), (b"SIMPLE  =" + b" " * 99, "a FITS image")]
)
def test_images_without_suffix_are_known_by_their_contents(jobs: Jobs, content: bytes, words: str) -> None:
    jobs.refuse("images", f"1 file without suffix, such as 'a/IM0'…{words}, which", files={"a/IM0": content})
    jobs.refuse("images", "a glob, such as 'folder/*/*', takes every file", files={"a/IM0": b"?"})
    jobs.write({"a/IM0": content})
    jobs.fail("images --input in/*/*", f"{words}, which")
