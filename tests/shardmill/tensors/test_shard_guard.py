"""A damaged shard ends training with an error that names file and record, and a sound one costs a look in the first
epoch."""

import gc
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.errors import CorruptDataError
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.reading.tensor_dataset import with_shard_checks
from tests.support.later import Later
from tests.support.reading import copy, flip, shards

tf = Later("tensorflow")


@pytest.fixture
def rows(rows_in_four_shards: Path) -> Path:
    return rows_in_four_shards


WAYS: list[dict[str, Any]] = [
    {"batch_size": 4},
    {"shuffle": False},
    {"seed": 1, "cache": True},
    {"augment": lambda n: n},
]


def read(directory: Path, **options: Any) -> None:
    for _ in shardmill.load(directory, features=["n"], **options):
        pass


@pytest.mark.parametrize("options", WAYS)
def test_a_flipped_bit_is_named_with_file_and_record(rows: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    victim = shards(copy(rows, tmp_path))[1]
    flip(victim, 100)

    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{victim.name}: record 0 at byte 0 fails its checksum"):
        read(victim.parent, **options)
    with pytest.raises(tf.errors.DataLossError):
        read(victim.parent, verify=False, **options)


def test_remote_files_are_read_once_only(rows: Path, tmp_path: Path) -> None:
    victim = shards(copy(rows, tmp_path))[1]
    flip(victim, 100)
    remote = "ram://guarded/1.0.0"
    tf.io.gfile.makedirs(remote)
    for path in victim.parent.glob("*"):
        if path.is_file():
            with tf.io.gfile.GFile(f"{remote}/{path.name}", "wb") as file:
                file.write(path.read_bytes())

    with pytest.raises(tf.errors.DataLossError):
        list(shardmill.load(remote, features=["n"]))
    with pytest.raises(CorruptDataError, match=f"{victim.name}: record 0 at byte 0 fails its checksum"):
        shardmill.load(remote, features=["n"], verify=True)


@pytest.mark.filterwarnings("ignore:split 'train' has 4 shards for 5 workers")
@pytest.mark.parametrize("workers", [4, 5])
def test_of_workers_who_reads_it_finds_it(rows: Path, tmp_path: Path, workers: int) -> None:
    victim = shards(copy(rows, tmp_path))[1]
    flip(victim, 100)

    if workers == 4:
        read(victim.parent, num_workers=workers, worker_index=2)  # whose shard is another
    with pytest.raises(tf.errors.InvalidArgumentError, match=victim.name):
        read(victim.parent, num_workers=workers, worker_index=1)


@pytest.mark.parametrize("options", WAYS)
def test_a_sound_shard_of_the_same_size_is_found_out(
    equal_shards: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    directory = copy(equal_shards, tmp_path)
    first, second = shards(directory)
    first.write_bytes(second.read_bytes())

    with pytest.raises(tf.errors.InvalidArgumentError, match="00000-of-00002 is not the file that was written"):
        list(shardmill.load(directory, supervised=False, **options))
    assert len(list(shardmill.load(directory, supervised=False, verify=False))) == 20


@pytest.mark.parametrize(
    ("damage", "message"), [("missing", "is missing"), ("truncated", "record .* at byte .* is cut short")]
)
def test_damage_after_the_call(rows: Path, tmp_path: Path, damage: str, message: str) -> None:
    victim = shards(copy(rows, tmp_path))[2]
    dataset = shardmill.load(victim.parent, features=["n"])
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-9])

    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{victim.name}.* {message}"):
        list(dataset)


def test_each_shard_is_read_once_more_in_all_epochs(rows: Path) -> None:
    opened = []

    class Counting:
        def __init__(self, dataset: Dataset) -> None:
            self._files = dataset.files

        def open(self, path: str) -> Any:
            opened.append(path)
            return self._files.open(path)

        def exists(self, path: str) -> bool:
            return self._files.exists(path)

    sound = open_dataset(rows)
    dataset = Dataset(sound.directory, sound.manifest, Counting(sound))
    entries = sound.manifest.splits[0].shards
    paths = [dataset.path(shard) for shard in entries]
    guarded = with_shard_checks(dataset, entries, tf.data.Dataset.from_tensor_slices(paths))

    for _ in range(3):
        assert [path.decode() for path in guarded.as_numpy_iterator()] == paths
    assert sorted(opened) == paths


def test_an_iterator_outlives_its_dataset(rows: Path) -> None:
    iterator = iter(shardmill.load(rows, features=["n"], shuffle=False, repeat=2))
    gc.collect()

    assert sum(1 for _ in iterator) == 200


def test_under_a_distribution_strategy(rows: Path) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    distributed = strategy.experimental_distribute_dataset(shardmill.load(rows, batch_size=10, features=["n"]))
    gc.collect()

    assert sum(1 for _ in distributed) == 10


def test_an_iterator_s_place_can_be_saved(rows: Path, tmp_path: Path) -> None:
    iterator = iter(shardmill.load(rows, features=["n"], shuffle=False))
    first = [int(next(iterator)[0]) for _ in range(30)]
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "iterator"))
    following = [int(n) for n, _ in iterator]

    checkpoint.restore(path)

    assert [int(n) for n, _ in iterator] == following
    assert len(first + following) == 100
