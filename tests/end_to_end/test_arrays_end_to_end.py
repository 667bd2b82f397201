"""Arrays end to end: folders and manifests of .npy files, every reader, and everything that is no array."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardmill
from shardmill.pipelines import cli
from tests.support.command import Contents, Run, check_mistake, image, read_back, tree_bytes, write_files
from tests.support.small_data_set import edit_manifest

SPLITS = ("--splits", "train=0.75,test=0.25")


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def scan(number: int, element: str = "float32") -> np.ndarray:
    """An array of 6 x 5, another for each number."""
    return (np.arange(30).reshape(6, 5) * (number + 1) % 97).astype(element)


ARRAYS = {
    f"{label}/{number:02d}.npy": scan(10 * index + number)
    for index, label in enumerate(("cat", "dog"))
    for number in range(30)
}
# Of every odd one, the axes are stored in the other order, and of every third the bytes.
TREE = {
    name: npy(np.asarray(array, ">f4" if number % 3 == 0 else "<f4", order="F" if number % 2 else "C"))
    for number, (name, array) in enumerate(ARRAYS.items())
}


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 arrays of two classes."""
    return write_files(tmp_path_factory.mktemp("arrays") / "in", TREE)


@pytest.fixture(scope="session")
def plain(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The tree in two splits of two shards, all else by default."""
    output = tmp_path_factory.mktemp("plain")
    assert (
        cli.main(["arrays", "--input", str(tree), "--output", str(output), "--name", "n", *SPLITS, "--num_shards", "2"])
        == 0
    )
    return read_back(output / "n")


def convert(run: Run, output: Path, *flags: object) -> Contents:
    """Run the command, which must succeed, and read the data set back."""
    result = run("arrays", "--output", output, "--name", "n", *flags)
    assert result.status == 0, result.err
    return read_back(output / "n")


def test_tree_of_class_folders(plain: Contents) -> None:
    assert plain.records.keys() == ARRAYS.keys()
    assert (plain.directory / "label.labels.txt").read_text() == "cat\ndog\n"
    for name, array in ARRAYS.items():
        example = plain.example(name)
        assert list(example) == ["image", "label", "filename"]
        assert example["image"] == [array.tobytes()]
        assert plain.label_of(name) == name[:3]
    assert sorted(len(names) for names in plain.splits.values()) == sorted(
        split.examples for split in plain.dataset.manifest.splits
    )


def test_statistics_and_notices(plain: Contents) -> None:
    stats = json.loads((plain.directory / "stats.json").read_text())["splits"]
    for split, names in plain.splits.items():
        values = np.stack([ARRAYS[name] for name in names])
        assert stats[split]["features"]["image"]["values"] == {"min": values.min(), "max": values.max()}
        assert stats[split]["features"]["image"]["size_bytes"]["mean"] == 120
        assert sum(stats[split]["features"]["label"]["classes"].values()) == len(names)
    notice = "the arrays are float32 of 6 x 5, as is 'cat/00.npy', the first by name; others are rejected"
    assert notice in plain.dataset.manifest.notices


def test_the_schema_and_decode_raw_read_it(plain: Contents) -> None:
    import tensorflow as tf

    spec = {"image": tf.io.FixedLenFeature([], tf.string), "filename": tf.io.FixedLenFeature([], tf.string)}
    files = sorted(str(path) for path in plain.directory.glob("*.tfrecord*"))
    for batch in tf.data.TFRecordDataset(files).batch(16).map(lambda records: tf.io.parse_example(records, spec)):
        arrays = tf.reshape(tf.io.decode_raw(batch["image"], tf.float32), [-1, 6, 5])
        for name, array in zip(batch["filename"].numpy(), arrays.numpy(), strict=True):
            assert np.array_equal(array, ARRAYS[name.decode()])


def test_tfds_reads_it(plain: Contents) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(plain.directory))
    assert (builder.info.features["image"].shape, builder.info.features["image"].np_dtype) == ((6, 5), np.float32)
    found = {
        row["filename"].decode(): row
        for split in plain.splits
        for row in tfds.as_numpy(builder.as_dataset(split=split))
    }
    assert found.keys() == ARRAYS.keys()
    for name, row in found.items():
        assert np.array_equal(row["image"], ARRAYS[name])
        assert builder.info.features["label"].int2str(row["label"]) == name[:3]


def test_our_readers_read_it(plain: Contents) -> None:
    for split, names in plain.splits.items():
        examples = {row["filename"]: row for row in shardmill.examples(plain.directory, split)}
        assert {name.decode() if isinstance(name, bytes) else name for name in examples} == set(names)
        for name, row in examples.items():
            array = ARRAYS[name.decode() if isinstance(name, bytes) else name]
            assert row["image"].dtype == np.float32
            assert np.array_equal(row["image"], array)
        loaded = shardmill.load(plain.directory, split, batch_size=8, features=["image", "filename"], supervised=False)
        for batch in loaded.as_numpy_iterator():
            for name, array in zip(batch["filename"], batch["image"], strict=True):
                assert np.array_equal(array, ARRAYS[name.decode()])


@pytest.mark.parametrize("threads", [1, 3, 16])
def test_threads_do_not_show(run: Run, tree: Path, plain: Contents, tmp_path: Path, threads: int) -> None:
    again = convert(run, tmp_path, "--input", tree, *SPLITS, "--num_shards", 2, "--threads", threads)
    assert tree_bytes(again.directory) == tree_bytes(plain.directory)


def test_inspect_and_verify(run: Run, plain: Contents, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    shown = run("inspect", plain.directory, "--contact_sheet", sheet)
    assert shown.status == 0, shown.err
    assert "array of float32" in shown.out
    assert "float32 of 6 x 5, 120 B" in shown.out
    with Image.open(sheet) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 20
    assert run("verify", plain.directory, "--decode").status == 0


def test_verify_finds_an_array_of_another_size(run: Run, plain: Contents, tmp_path: Path) -> None:
    write_files(tmp_path / "n", tree_bytes(plain.directory))
    edit_manifest(tmp_path / "n", lambda content: content["features"][0].update(element="float64"))
    result = run("verify", tmp_path / "n")
    assert result.status == 1
    assert "feature 'image' holds 120 bytes; expected 240" in result.out + result.err


def test_dry_run(run: Run, tree: Path, tmp_path: Path) -> None:
    result = run("arrays", "--input", tree, "--output", tmp_path / "out", "--name", "n", "--dry_run")
    assert (result.status, (tmp_path / "out").exists()) == (0, False)
    assert "60 files" in result.out
    assert "NOTE: the arrays are float32 of 6 x 5, as is 'cat/00.npy'" in result.out


def test_manifest_with_columns(run: Run, tree: Path, tmp_path: Path) -> None:
    boxes = [[0.0, 0.25, 0.5, 1.0], [0.5, 0.5, 1.0, 1.0]]
    rows = [
        {"file_name": name, "label": name[:3], "height": 6, "boxes": boxes[: index % 3], "note": f"scan {index}"}
        for index, name in enumerate(TREE)
    ]
    manifest = write_files(tmp_path / "in", TREE) / "meta.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    contents = convert(run, tmp_path, "--manifest", manifest, "--feature", "scan")
    features = {feature.name: feature for feature in contents.dataset.manifest.features}
    assert list(features) == ["scan", "label", "filename", "boxes", "height", "note"]
    assert (features["scan"].kind, features["boxes"].shape, features["boxes"].required) == ("array", (None, 4), True)
    for index, name in enumerate(TREE):
        example = contents.example(name)
        assert example["scan"] == [ARRAYS[name].tobytes()]
        assert np.array_equal(np.reshape(example["boxes"], (-1, 4)), np.reshape(boxes[: index % 3], (-1, 4)))
        assert example["note"] == [f"scan {index}".encode()]


@pytest.mark.parametrize(("element", "shape"), [("uint8", (6, 5, 3)), ("complex64", (4,)), ("float16", ())])
def test_other_arrays(run: Run, tmp_path: Path, element: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 9, shape).astype(element)
    source = write_files(tmp_path / "in", {"a.npy": npy(array), "b.NPY": npy(array)})
    contents = convert(run, tmp_path, "--input", source)
    (feature,) = (feature for feature in contents.dataset.manifest.features if feature.kind == "array")
    assert (feature.element, feature.shape) == (element, shape)
    assert contents.example("b.NPY")["image"] == [array.tobytes()]
    assert run("inspect", contents.directory).status == 0
    assert run("verify", contents.directory).status == 0
    row, _ = shardmill.examples(contents.directory)
    assert np.array_equal(row["image"], array)


BAD = {
    "cat/a.npy": (npy(scan(1, "int64")), "int64 of 6 x 5; expected float32 of 6 x 5, as in cat/00.npy"),
    "cat/b.npy": (npy(scan(1)[:, :4]), "float32 of 6 x 4; expected float32 of 6 x 5, as in cat/00.npy"),
    "cat/c.npy": (TREE["cat/01.npy"][:-7], "truncated: 7 of the 120 bytes of float32 of 6 x 5 are missing"),
    "cat/d.npy": (TREE["cat/01.npy"] + b"\0", "1 bytes follow float32 of 6 x 5; expected one array and no more"),
    "cat/e.npy": (b"", "the file is empty"),
    "cat/f.npy": (b"6, 5\n", "not .npy: it begins with '6, 5\\n'"),
    "dog/g.npy": (image(1), "not .npy: it begins with '\\xff\\xd8"),
    "dog/h.npy": (b"PK\x03\x04" + bytes(99), "not .npy, but .npz or another archive"),
    "dog/j.npy": (
        npy(np.zeros(3)).replace(b"'shape': (3,)", b"'shape': f() "),
        "its header cannot be read: malformed node or string on line 1: <ast.Call object>",
    ),
    "dog/i.npy": (npy(np.array(["text"])), "an array of dtype <U4; only numbers and booleans can be read"),
}


def test_bad_files_are_rejects_and_disturb_nothing(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {**TREE, **{name: content for name, (content, _) in BAD.items()}})
    contents = convert(run, tmp_path, "--input", source, *SPLITS, "--max_reject_fraction", 0.2)
    rejects = {reject["source"]: reject["reason"] for reject in contents.rejects()}
    assert rejects.keys() == BAD.keys()
    for name, (_, reason) in BAD.items():
        assert rejects[name].startswith(reason), rejects[name]
        assert " at 0x" not in rejects[name]  # an address in memory would differ in each run
    assert contents.records.keys() == ARRAYS.keys()
    assert all(contents.example(name)["image"] == [array.tobytes()] for name, array in ARRAYS.items())
    assert run("verify", contents.directory).status == 0


def test_shape_and_dtype_decide_where_the_first_file_is_wrong(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {**TREE, "cat/!.npy": b"oops"})
    command = ("arrays", "--input", source, "--output", tmp_path / "out", "--name", "n")
    words = (
        "'cat/!.npy', the first file by name, does not say what the arrays are: not .npy: it begins with 'oops'; give"
        " --shape"
    )
    check_mistake(run(*command), words)
    check_mistake(run(*command, "--dry_run"), words)
    assert not (tmp_path / "out").exists()
    contents = convert(
        run, tmp_path, "--input", source, "--shape", "6,5", "--dtype", "float32", "--max_reject_fraction", 0.1
    )
    assert [reject["source"] for reject in contents.rejects()] == ["cat/!.npy"]
    assert contents.records.keys() == ARRAYS.keys()


def test_nothing_of_the_shape_that_was_said(run: Run, tree: Path, tmp_path: Path) -> None:
    flags = ("--shape", "5,6", "--dtype", "float32")
    result = run("arrays", "--input", tree, "--output", tmp_path, "--name", "n", *flags)
    assert result.status == 1
    assert "float32 of 6 x 5; expected float32 of 5 x 6, as --shape and --dtype say" in result.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--shape", "6,5"), "--shape and --dtype go together; --dtype is missing"),
        (("--dtype", "float32"), "--shape and --dtype go together; --shape is missing"),
        (("--shape", "6x5", "--dtype", "float32"), "'6x5' is not a list of sizes from 1, such as 64,64"),
        (("--shape", "0,5", "--dtype", "float32"), "'0,5' is not a list of sizes"),
        (("--shape", "6,5", "--dtype", "uint32"), "--dtype uint32: expected one of float16, float32"),
        (("--shape", "99999,99999", "--dtype", "float32"), "an example holds 2 GB at most"),
        (("--feature", "label"), "--feature: label: that is another feature's name"),
        (("--feature", ""), "--feature: '': expected a name"),
        (("--manifest", "m.csv"), "give either --input"),
        (("--allow_outside",), "--allow_outside is about the names in a --manifest"),
        (("--resize", "4x4"), "unknown flag --resize"),
    ],
)
def test_mistakes(run: Run, tree: Path, tmp_path: Path, flags: tuple[str, ...], words: str) -> None:
    check_mistake(run("arrays", "--input", tree, "--output", tmp_path / "out", "--name", "n", *flags), words)
    assert not (tmp_path / "out").exists()


def test_a_column_called_as_the_array(run: Run, tmp_path: Path) -> None:
    files = {"a.npy": TREE["cat/00.npy"], "m.csv": b"file_name,scan\na.npy,1\n"}
    manifest = write_files(tmp_path / "in", files) / "m.csv"
    command = ("arrays", "--manifest", manifest, "--output", tmp_path, "--name", "n")
    check_mistake(
        run(*command, "--feature", "scan"), "has a column 'scan', which is the name of a feature that every example has"
    )
    assert run(*command).status == 0


def test_images_and_arrays_know_each_other(run: Run, tree: Path, tmp_path: Path) -> None:
    rest = ("--output", tmp_path / "out", "--name", "n")
    check_mistake(
        run("images", "--input", tree, *rest), "no images in", "60 .npy files", "arrays, which `shardmill arrays` reads"
    )
    pictures = write_files(tmp_path / "in", {"a.png": image(1, "PNG")})
    check_mistake(run("arrays", "--input", pictures, *rest), "no arrays in", "1 .png file")
    assert not (tmp_path / "out").exists()
