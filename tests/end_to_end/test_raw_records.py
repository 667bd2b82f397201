"""TFRecord files whose records are no Examples: the kind that the message names, and --record_type raw, which passes
them through."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.data import tfrecord
from shardmill.data.example import encode_example, message_kind
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, check_mistake, image, run_program, write_files
from tests.support.later import Later

tf = Later("tensorflow")
serving = Later("tensorflow_serving.apis.input_pb2")

EXAMPLE = encode_example({"relevance": [1], "score": [0.25]})
OTHERS = {
    "JPEG images": [image(number) for number in range(12)],
    "PNG images": [image(number, "PNG") for number in range(12)],
    "JSON texts": [json.dumps({"id": number}).encode() for number in range(12)],
    "Python pickles": [
        b"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00K" + bytes([number]) + b"." for number in range(9)
    ],
}


def int_feature(*values: int) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def sequences() -> list[bytes]:
    """Serialized SequenceExamples, with and without a context, and with empty lists."""
    lists = tf.train.FeatureLists(
        feature_list={"tokens": tf.train.FeatureList(feature=[int_feature(1, 200), int_feature(3)])}
    )
    contexts = [tf.train.Features(feature={"id": int_feature(number)}) for number in range(20)]
    made = [tf.train.SequenceExample(context=context, feature_lists=lists) for context in contexts]
    made += [tf.train.SequenceExample(feature_lists=lists)]
    made += [tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"t": tf.train.FeatureList()}))]
    return [each.SerializeToString() for each in made]


def example_lists() -> list[bytes]:
    """Serialized ELWCs of 1 to 4 examples, with and without a context."""
    context = tf.train.Example.FromString(encode_example({"query": [b"shoes"]}))
    made = [serving.ExampleListWithContext(context=context if number % 2 else None) for number in range(20)]
    for number, each in enumerate(made):
        for _ in range(number % 4 + 1):
            each.examples.add().CopyFrom(tf.train.Example.FromString(EXAMPLE))
    made.append(serving.ExampleListWithContext(context=context))
    return [each.SerializeToString() for each in made]


def tensors() -> list[bytes]:
    return [tf.io.serialize_tensor(tf.constant([number, 2], tf.float32)).numpy() for number in range(9)]


KINDS: dict[str, Callable[[], list[bytes]]] = {
    "tf.train.SequenceExamples": sequences,
    "tensorflow.serving.ExampleListWithContext messages (ELWC)": example_lists,
    "tensors (tf.io.serialize_tensor)": tensors,
    "texts": lambda: [b"line %d" % number for number in range(9)],
    **{name: partial(list, records) for name, records in OTHERS.items()},
}


def framed(records: list[bytes]) -> bytes:
    return b"".join(map(tfrecord.frame_record, records))


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("tf.train.SequenceExample", sequences),
        ("tensorflow.serving.ExampleListWithContext", example_lists),
        ("", tensors),
        ("tf.train.Example", lambda: [EXAMPLE, b"", encode_example({"": [b"\n\x00"]}), EXAMPLE + EXAMPLE]),
        ("", lambda: [b"text", b"\xff\xff", *OTHERS["JPEG images"]]),
    ],
)
def test_kinds_of_messages(kind: str, make: Any) -> None:
    assert [message_kind(record) for record in make()] == [kind] * len(make())


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_stops_the_job_and_raw_passes_it_through(kind: str, tmp_path: Path, run: Run) -> None:
    records = KINDS[kind]()
    source = write_files(tmp_path / "in", {"a.tfrecord": framed(records), "b.tfrecord": framed([EXAMPLE])})
    given = ("reshard", "--input", source, "--output", tmp_path / "out", "--name", "n")

    check_mistake(
        run(*given, "--block_size", "1KiB"), f"a.tfrecord: its records are {kind}", "--record_type raw passes"
    )
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))

    done = run(*given, "--record_type", "raw", "--splits", "train=0.6,test=0.4", "--num_shards", 2)
    assert (done.status, done.err) == (0, "")
    folder = tmp_path / "out/n/1.0.0"
    found = [each["record"] for split in ("train", "test") for each in shardmill.examples(folder, split)]
    assert sorted(found) == sorted([*records, EXAMPLE])
    by_tensorflow = tf.data.TFRecordDataset([str(path) for path in sorted(folder.glob("n-*"))])
    assert sorted(record.numpy() for record in by_tensorflow) == sorted(found)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version of raw records, two of which are equal."""
    folder = tmp_path_factory.mktemp("raw")
    records = OTHERS["JPEG images"]
    source = write_files(folder / "in", {"a.tfrecord": framed([*records, records[0]])})
    done = run_program(
        *("reshard", "--input", source, "--output", folder / "out", "--name", "n"),
        *("--record_type", "raw", "--splits", "train=0.7,test=0.3", "--group_by", "content"),
    )
    assert done.status == 0
    return folder / "out/n/1.0.0"


def test_the_version_says_what_is_known(raw: Path, run: Run) -> None:
    manifest = open_dataset(raw).manifest
    stats = json.loads((raw / file_names.STATS).read_bytes())

    assert (manifest.features, manifest.configuration["record_type"]) == ((), "raw")
    assert "--record_type raw passed the records through unparsed: they have no features" in manifest.notices
    sizes = [len(record) for record in OTHERS["JPEG images"]]
    lengths = [split["features"]["record"]["length_bytes"] for split in stats["splits"].values()]
    assert min(each["min"] for each in lengths) == min(sizes)
    assert max(each["max"] for each in lengths) == max(sizes)
    assert sum(each["examples"] for each in stats["duplicates"]["within"].values()) == 2  # compared byte by byte
    # Nothing that TFDS would take for a description of Examples
    assert not (raw / file_names.FEATURES).exists()
    assert not (raw / file_names.DATASET_INFO).exists()


@pytest.mark.parametrize("command", [("verify", "--decode"), ("inspect",), ("report",)])
def test_commands_take_it(raw: Path, tmp_path: Path, run: Run, command: tuple[str, ...]) -> None:
    more = ("--output", tmp_path / "page.html") if command == ("report",) else ()
    done = run(*command, raw, *more)
    assert (done.status, done.err) == (0, "")


def test_verify_finds_damage(raw: Path, tmp_path: Path, run: Run) -> None:
    for path in raw.iterdir():
        data = bytearray(path.read_bytes())
        if path.name.startswith("n-train"):
            data[40] ^= 1
        (tmp_path / path.name).write_bytes(data)

    done = run("verify", tmp_path)

    assert done.status == 1
    assert "record" in done.out + done.err


@pytest.mark.parametrize(
    "read",
    [
        lambda path: shardmill.load(path),
        lambda path: shardmill.feature_spec(path),
        lambda path: list(shardmill.examples(path, features=["id"])),
    ],
)
def test_readers_of_features_say_that_there_are_none(raw: Path, read: Any) -> None:
    with pytest.raises(UserError, match=r"without features: --record_type raw.*shardmill.examples yields the bytes"):
        read(raw)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--label", "x"), "--label"),
        (("--key", "x"), "--key"),
        (("--group_by", "x", "--splits", "a=0.5,b=0.5"), "--group_by"),
        (("--stratify_by", "x", "--splits", "a=0.5,b=0.5"), "--stratify_by"),
        (("--on_mixed", "reject"), "--on_mixed"),
    ],
)
def test_flags_that_need_features(tmp_path: Path, run: Run, flags: tuple[str, ...], named: str) -> None:
    source = write_files(tmp_path / "in", {"a.tfrecord": framed([EXAMPLE])})
    given = ("reshard", "--input", source, "--output", tmp_path / "out", "--name", "n", "--record_type", "raw")
    check_mistake(run(*given, *flags), f"--record_type raw and {named}: raw records are not parsed")


def test_a_file_of_mixed_records_loses_only_the_others(tmp_path: Path, run: Run) -> None:
    """The kind of a file is that of its first records; later ones of another kind are rejects, without a log line."""
    records = [EXAMPLE, example_lists()[1], EXAMPLE, sequences()[0], b"\xff\xd8\xff", EXAMPLE]
    source = write_files(tmp_path / "in", {"a.tfrecord": framed(records)})
    given = ("reshard", "--input", source, "--output", tmp_path / "out", "--name", "n", "--max_reject_fraction", "0.6")

    done = run_program(*given)

    assert (done.status, done.err) == (0, "")
    (file,) = (tmp_path / "out/n/1.0.0/rejects").iterdir()
    rejects = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (2, "record 2 is a tensorflow.serving.ExampleListWithContext; expected a tf.train.Example"),
        (4, "record 4 is a tf.train.SequenceExample; expected a tf.train.Example"),
        (5, "record 5 is not a tf.train.Example"),
    ]
