"""Data sets in PyTorch, torchdata and Grain, by `make check NAME=torch`, in an environment that has the reader only.

It is run without tests/conftest.py, which imports Beam. The environment variable SHARDMILL names the command that makes
the data.
"""

import copy
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import accelerate
import grain
import numpy as np
import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from PIL import Image
from torch.utils.data import ChainDataset, DataLoader, IterableDataset
from torch.utils.data.datapipes.iter import IterableWrapper
from torchdata.stateful_dataloader import StatefulDataLoader

import shardmill
import shardmill.torch
from shardmill.data.example import decode_example
from shardmill.errors import CorruptDataError, UserError
from tests.support.damage import check_damages

REPOSITORY = Path(__file__).resolve().parents[2]
TRAINING = REPOSITORY / "tests" / "support" / "torch_training.py"
ROWS, BATCH, EPOCHS = 103, 8, 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def rows(folder: Path) -> Path:
    """103 rows in three shards, whose lists and texts differ in length, and some of which lack a number."""
    lines = [f"{n},{n / 4},word{n},{'|'.join(['7'] * (n % 3))},{'' if n % 5 == 0 else n}" for n in range(ROWS)]
    (folder / "rows.csv").write_text("n,x,word,list,missing\n" + "\n".join(lines) + "\n")
    return convert(folder, "csv", "rows.csv", "--list_separator", "list=|", "--num_shards", "3")


@pytest.fixture(scope="module")
def images(folder: Path) -> Path:
    (folder / "images").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), np.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image[: 8 + number % 8]).save(folder / "images" / f"{number}.png")
    return convert(folder, "images", "images")


def convert(folder: Path, command: str, source: str, *flags: str) -> Path:
    places = ["--input", source, "--output", "out", "--name", Path(source).stem]
    subprocess.run(
        [os.environ["SHARDMILL"], command, *places, *flags], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    return folder / "out" / Path(source).stem


def dataset(rows: Path, **options: Any) -> shardmill.torch.Dataset:
    """The numbers of the rows, in batches of 8."""
    options = {"batch_size": BATCH, "remainder": "drop", "seed": 5, **options}
    return shardmill.torch.Dataset(shardmill.source(rows, features=["n"]), **options)


def joined(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def numbers(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


def epoch_of(rows: Path, epoch: int) -> list[list[int]]:
    data = dataset(rows)
    data.set_epoch(epoch)
    return numbers(data)


def loader(dataset: Any, workers: int, kind: Any = DataLoader) -> Any:
    return kind(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


def test_the_order_is_the_same_for_any_number_of_workers(rows: Path) -> None:
    whole = numbers(dataset(rows))
    source = shardmill.source(rows)

    assert joined(whole) == [source[int(number)]["n"] for number in shardmill.Order(ROWS, 5)[:96]]
    assert joined(numbers(dataset(rows, shuffle=False))) == [source[number]["n"] for number in range(96)]
    for workers in (0, 1, 2, 3):
        assert numbers(loader(dataset(rows), workers)) == whole
    assert numbers(dataset(rows, seed=6)) != whole
    assert numbers(dataset(rows, block=4, window=2)) != whole


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_by_columns_are_those_of_examples(folder: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number - 50},{number / 3},word {number}\n" for number in range(ROWS)]
    (folder / f"indexed{workers}.csv").write_text("n,x,word\n" + "".join(lines))
    source = shardmill.source(convert(folder, "csv", f"indexed{workers}.csv", "--index"))
    assert source.read_columns([0, 5]) is not None
    options: dict[str, Any] = {"batch_size": 20_000, "remainder": "pad"}  # words and numbers, small and large tensors

    for changed in ({"batch_size": BATCH}, {}):
        found = list(loader(shardmill.torch.Dataset(source, **{**options, **changed}), workers))
        with monkeypatch.context() as patched:
            patched.setattr(type(source), "read_columns", lambda *_: None)
            expected = list(shardmill.torch.Dataset(source, **{**options, **changed}))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert list(one) == list(other)
            for name, values in one.items():
                assert type(values) is type(other[name])
                same = torch.equal(values, other[name]) if isinstance(values, torch.Tensor) else values == other[name]
                assert same
                assert not isinstance(values, torch.Tensor) or values.dtype == other[name].dtype


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_the_order_is_the_same_for_any_number_of_ranks(rows: Path, world_size: int) -> None:
    ranks = [numbers(dataset(rows, rank=rank, world_size=world_size)) for rank in range(world_size)]

    assert [joined(parts) for parts in zip(*ranks, strict=True)] == numbers(dataset(rows))


def test_the_remainder_is_dropped_or_marked(rows: Path) -> None:
    dropped, padded = list(dataset(rows)), list(dataset(rows, remainder="pad"))
    marks = torch.cat([batch["is_padding"] for batch in padded])
    seen = torch.cat([batch["n"] for batch in padded])

    assert (len(dropped), len(padded), len(dataset(rows)), len(dataset(rows, remainder="pad"))) == (12, 13, 12, 13)
    assert "is_padding" not in dropped[0]
    assert marks.tolist() == [False] * ROWS + [True]
    assert sorted(seen[~marks].tolist()) == list(range(ROWS))
    assert seen[-1] == seen[0]


@pytest.mark.parametrize(
    ("kind", "workers", "is_persistent", "method"),
    [
        (DataLoader, 0, False, None),
        (DataLoader, 2, False, "fork"),
        (DataLoader, 3, True, "fork"),
        (DataLoader, 2, True, "spawn"),
        (StatefulDataLoader, 0, False, None),
        (StatefulDataLoader, 2, False, "fork"),
        (StatefulDataLoader, 2, True, "fork"),
    ],
)
def test_passes_are_successive_epochs(
    rows: Path, kind: Any, workers: int, is_persistent: bool, method: str | None
) -> None:
    """After a state was loaded, without `set_epoch` and with it, after a pass that was left, and of a copy."""
    data = dataset(rows)
    data.load_state_dict({**data.state_dict(), "epoch": 3, "batch": 9})
    reader = kind(
        data, batch_size=None, num_workers=workers, persistent_workers=is_persistent, multiprocessing_context=method
    )

    assert (data.epoch, data.first_batch) == (3, 9)
    assert [numbers(reader) for _ in range(2)] == [epoch_of(rows, 3)[9:], epoch_of(rows, 4)]
    assert (data.epoch, data.first_batch) == (4, 0)
    for _ in reader:
        break
    copied = copy.deepcopy(data)
    assert numbers(reader) == epoch_of(rows, 6)
    assert data.state_dict(5)["epoch"] == 6
    for epoch in (1, 1, 0):
        data.set_epoch(epoch)
        assert numbers(reader) == epoch_of(rows, epoch)
    assert numbers(DataLoader(copied, batch_size=None, num_workers=workers)) == epoch_of(rows, 6)


@pytest.mark.parametrize("taken", [0, 1, 5, 12])
@pytest.mark.parametrize(("workers", "later"), [(0, 2), (2, 0), (2, 3)])
def test_a_plain_loader_continues_on_other_workers(rows: Path, taken: int, workers: int, later: int) -> None:
    whole = []
    for epoch in (3, 4):
        again = dataset(rows)
        again.set_epoch(epoch)
        whole.append(numbers(again))
    first, second = dataset(rows), dataset(rows)
    first.set_epoch(3)
    before = []
    for _, batch in zip(range(taken), loader(first, workers), strict=False):
        before.append(batch["n"].tolist())
    second.load_state_dict(json.loads(json.dumps(first.state_dict(taken))))
    assert (second.epoch, second.first_batch) == (3, taken)
    reader, after = loader(second, later), []
    for epoch in range(second.epoch, 5):
        second.set_epoch(epoch)
        after.append(numbers(reader))

    assert before + after[0] == whole[0]
    assert after[1] == whole[1]


def test_without_workers_the_state_counts_itself(rows: Path) -> None:
    first, second = dataset(rows), dataset(rows)
    batches = iter(first)
    whole = [next(batches) for _ in range(4)]
    second.load_state_dict(first.state_dict())

    assert numbers(whole) + numbers(second) == numbers(dataset(rows))
    assert numbers(second) == epoch_of(rows, 1)  # the next pass is a whole one
    second.set_epoch(5)  # while a pass of epoch 2 has not ended
    for batch in range(2):
        next(passing := iter(second)) if batch == 0 else second.set_epoch(7)
    next(passing)
    assert (second.state_dict()["epoch"], second.state_dict()["batch"]) == (5, 2)


@pytest.mark.parametrize("taken", [0, 1, 2, 5, 11, 12])
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_torchdata_continues(rows: Path, taken: int, workers: int) -> None:
    whole, reader = numbers(dataset(rows)), loader(dataset(rows), workers, StatefulDataLoader)
    batches = iter(reader)
    before = [next(batches)["n"].tolist() for _ in range(taken)]
    state = pickle.loads(pickle.dumps(reader.state_dict()))
    again = loader(dataset(rows), workers, StatefulDataLoader)
    again.load_state_dict(state)

    assert before + numbers(again) == whole
    assert numbers(again) == epoch_of(rows, 1)


def test_torchdata_with_other_workers(rows: Path) -> None:
    reader = loader(dataset(rows), 2, StatefulDataLoader)
    next(iter(reader))
    again = loader(dataset(rows), 3, StatefulDataLoader)
    again.load_state_dict(reader.state_dict())
    with pytest.raises(Exception, match="worker"):
        next(iter(again))


def test_values_of_a_batch(rows: Path) -> None:
    source = shardmill.source(rows, defaults={"missing": -1})
    batch = next(iter(shardmill.torch.Dataset(source, batch_size=BATCH, remainder="drop", shuffle=False)))
    examples = source[:BATCH]

    assert {name: values.dtype for name, values in batch.items() if isinstance(values, torch.Tensor)} == {
        "n": torch.int64,
        "x": torch.float32,
        "missing": torch.int64,
    }
    assert batch["x"].tolist() == [example["x"] for example in examples]
    assert batch["word"] == [b"word%d" % n for n in batch["n"].tolist()]
    assert [values.tolist() for values in batch["list"]] == [[7] * (n % 3) for n in batch["n"].tolist()]
    assert batch["missing"].tolist() == [n if n % 5 else -1 for n in batch["n"].tolist()]


def test_images_of_a_batch(images: Path) -> None:
    source = shardmill.source(images, decode=True, image_size=(10, 12))
    batch = next(iter(shardmill.torch.Dataset(source, batch_size=4, remainder="drop", shuffle=False)))
    listed = next(
        iter(
            shardmill.torch.Dataset(
                shardmill.source(images, decode=True), batch_size=4, remainder="drop", shuffle=False
            )
        )
    )

    assert (batch["image"].shape, batch["image"].dtype) == ((4, 3, 10, 12), torch.uint8)
    assert np.array_equal(batch["image"][2].permute(1, 2, 0).numpy(), source[2]["image"])
    assert isinstance(listed["image"], list)
    assert listed["image"][0].shape[0] == 3


def test_a_source_is_what_grain_and_samplers_take(rows: Path) -> None:
    source = shardmill.source(rows, features=["n"])
    read = [int(batch["n"]) for batch in DataLoader(source, batch_size=None, shuffle=True, num_workers=2)]

    assert isinstance(source, grain.sources.RandomAccessDataSource)
    assert sorted(int(example["n"]) for example in grain.MapDataset.source(source).shuffle(3)) == list(range(ROWS))
    assert sorted(read) == list(range(ROWS)) != read


def test_array_records(rows: Path, folder: Path) -> None:
    (folder / "numbers.csv").write_text((folder / "rows.csv").read_text())
    flags = ("--list_separator", "list=|", "--num_shards", "3", "--file_format", "array_record")
    numbers = convert(folder, "csv", "numbers.csv", *flags)

    def read(path: Path, workers: int, method: str | None = None) -> list[list[int]]:
        loader = DataLoader(dataset(path), batch_size=None, num_workers=workers, multiprocessing_context=method)
        return [batch["n"].tolist() for batch in loader]

    expected = read(rows, 0)
    assert read(numbers, 2, "fork") == expected  # before the library is used here, and not after
    assert read(numbers, 0) == expected
    with pytest.raises(UserError, match="multiprocessing_context='spawn'"):
        read(numbers, 2, "fork")
    assert read(numbers, 2, "spawn") == expected
    paths = sorted(numbers.glob("1.0.0/*.array_record-*"))
    source = grain.sources.ArrayRecordDataSource(list(map(str, paths)))

    assert len(paths) == 3
    assert len(grain.MapDataset.source(source).shuffle(seed=1)) == ROWS
    assert [int(decode_example(record)["n"][0]) for record in source] == [
        int(example["n"]) for example in shardmill.examples(numbers)
    ]


class StoredFiles:
    """Files that are read as those of a store are: in requests, ahead of what is needed."""

    def open(self, path: str) -> BinaryIO:
        return open(path, "rb")

    def exists(self, path: str) -> bool:
        return os.path.exists(path)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_store_that_is_read_ahead(rows: Path, workers: int) -> None:
    def stored(**options: Any) -> shardmill.torch.Dataset:
        source = shardmill.source(rows, features=["n"], files=StoredFiles())
        return shardmill.torch.Dataset(source, batch_size=BATCH, remainder="pad", seed=5, **options)

    for options in ({"shuffle": False}, {"block": 16, "window": 1}, {}):
        whole = numbers(dataset(rows, remainder="pad", **options))
        assert numbers(loader(stored(**options), workers)) == whole
        first, second = stored(**options), stored(**options)
        before = [batch["n"].tolist() for _, batch in zip(range(5), first, strict=False)]
        second.load_state_dict(first.state_dict())
        assert before + numbers(loader(second, workers)) == whole


def test_a_function_of_each_example(rows: Path) -> None:
    def pair(example: dict[str, Any]) -> dict[str, Any]:
        return {"pair": np.array([example["n"], -example["n"]]), "text": str(example["n"])}

    batch = next(iter(dataset(rows, transform=pair)))

    assert batch["pair"].shape == (BATCH, 2)
    assert batch["text"] == [str(n) for n in batch["pair"][:, 0].tolist()]


def start(folder: Path, rows: Path, ranks: int, workers: int) -> list[subprocess.Popen[bytes]]:
    meeting = folder / "meeting"  # a file where ranks find each other: a port could be taken by others meanwhile
    meeting.unlink(missing_ok=True)
    environment = {"WORLD_SIZE": str(ranks), "MEETING": meeting.as_uri(), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TRAINING), str(folder), str(rows), *map(str, (BATCH, workers, EPOCHS))]
    return [
        subprocess.Popen(
            command, env={**os.environ, **environment, "RANK": str(rank)}, stderr=subprocess.PIPE, process_group=0
        )
        for rank in range(ranks)
    ]


def logged(folder: Path) -> list[tuple[int, int, list[int | None]]]:
    path = folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(json.loads(line)) for line in lines]


def test_a_killed_job_continues_on_other_ranks_and_workers(rows: Path, tmp_path: Path) -> None:
    """Killed at 20 moments, and continued by other numbers of processes: the batches of one that runs through."""
    whole = tmp_path / "whole"
    whole.mkdir()
    (run,) = start(whole, rows, 1, 0)
    assert run.wait() == 0, run.stderr and run.stderr.read()
    expected = {(epoch, batch): content for epoch, batch, content in logged(whole)}
    assert len(expected) == EPOCHS * 13
    for epoch in range(EPOCHS):
        seen = [n for (of, _), content in expected.items() if of == epoch for n in content if n is not None]
        assert sorted(seen) == list(range(ROWS))

    chance, kills, moments = random.Random(35), 0, 20
    attempt = 0
    while kills < moments:
        folder = tmp_path / str(attempt)
        folder.mkdir()
        attempt += 1
        is_done = False
        while not is_done:
            ranks, workers = chance.choice([1, 2, 4]), chance.choice([0, 2])
            first = json_state(folder)
            before = len(logged(folder))
            processes = start(folder, rows, ranks, workers)
            more = chance.randint(1, 6)
            while all(process.poll() is None for process in processes):
                if kills < moments and len(logged(folder)) >= before + more:
                    time.sleep(chance.random() / 50)
                    break
                time.sleep(0.002)
            is_done = all(process.poll() is not None for process in processes)
            is_killed = not is_done and kills < moments
            for process in processes:
                if is_killed:
                    with suppress(ProcessLookupError):  # ended already: ranks end that miss another
                        os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
                assert is_killed or status == 0, process.stderr and process.stderr.read().decode()
                assert process.stderr is not None
                process.stderr.close()
            is_done = not is_killed
            kills += is_killed
            new = logged(folder)[before:]
            assert not new or new[0][:2] == first, (new, first)
        found = logged(folder)
        assert {(epoch, batch) for epoch, batch, _ in found} == expected.keys()
        assert all(expected[epoch, batch] == content for epoch, batch, content in found)
        assert len(found) - len(expected) <= kills  # a batch is repeated only if its state was not saved any more


def json_state(folder: Path) -> tuple[int, int]:
    """Epoch and batch that a job begins with."""
    path = folder / "state.pt"
    if not path.exists():
        return 0, 0
    state = torch.load(path)
    epoch, batch = int(state["epoch"]), int(state["batch"])
    return (epoch + 1, 0) if batch == 13 else (epoch, batch)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 4, "rank": 0, "world_size": 5}, "world_size is 5, more ranks than the 4 examples"),
        ({"rank": 2, "world_size": 2}, "rank is 2; expected 0 to 1"),
        ({"rank": 2}, "give both rank and world_size, or neither"),
        ({"batch_size": 104}, "a batch has 104 examples, and there are 103; remainder='drop' leaves out all"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"remainder": "keep"}, "remainder is 'keep'; expected 'drop' or 'pad'"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_mistakes(rows: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        dataset(rows, **options)


def test_a_missing_value_needs_a_default(rows: Path) -> None:
    with pytest.raises(UserError, match="missing is a feature that some examples lack; give a value"):
        shardmill.torch.Dataset(shardmill.source(rows), batch_size=8, remainder="drop")


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"seed": 6}, "order"),
        ({"shuffle": False}, "order"),
        ({"block": 2}, "order"),
        ({"batch_size": 9}, "batch_size"),
        ({"remainder": "pad"}, "remainder"),
    ],
)
def test_a_state_of_another_order(rows: Path, changed: dict[str, Any], name: str) -> None:
    with pytest.raises(UserError, match=f"the state is of another {name}: "):
        dataset(rows, **changed).load_state_dict(dataset(rows).state_dict())


def test_states_that_do_not_fit(rows: Path, images: Path) -> None:
    other = shardmill.torch.Dataset(shardmill.source(images), batch_size=BATCH, remainder="drop", seed=5)
    with pytest.raises(UserError, match="the state is of another data: "):
        dataset(rows).load_state_dict(other.state_dict())
    sliced = shardmill.torch.Dataset(
        shardmill.source(rows, "train[:50]", features=["n"]), batch_size=BATCH, remainder="drop"
    )
    with pytest.raises(UserError, match="the state is of another data: "):
        sliced.load_state_dict(dataset(rows, seed=0).state_dict())
    with pytest.raises(UserError, match=r"this is no state of shardmill\.torch\.Dataset"):
        dataset(rows).load_state_dict({})
    for batches, sentence in ((14, "batches is 14; expected 0 to 12"), (2.5, "batches is 2.5; expected an integer")):
        with pytest.raises(UserError, match=sentence):
            dataset(rows).state_dict(batches)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"step is 0\.0; expected an integer"):
        shardmill.GlobalBatches(100, 8, "drop").positions(0.0)  # type: ignore[arg-type]
    reader = dataset(rows)
    next(iter(DataLoader(reader, batch_size=None, num_workers=2)))
    with pytest.raises(UserError, match="worker processes read ahead of the training loop; give the number"):
        reader.state_dict()


@pytest.mark.parametrize("name", ["format", "data", "order", "batch_size", "remainder", "epoch", "batch", "worker"])
@pytest.mark.parametrize("value", [None, -1, 2.5, "x", 10**30, [7, 7], {}, np.arange(3), float("nan")])
def test_damaged_states(rows: Path, name: str, value: Any) -> None:
    data = dataset(rows)
    damaged = {**data.state_dict(3), name: value}
    lacking = {key: kept for key, kept in damaged.items() if key != name}
    for state in (damaged, lacking) if name != "worker" or value is not None else ():
        if name == "worker" and state is lacking:
            continue  # as in the main process
        with pytest.raises(UserError) as found:
            data.load_state_dict(state)
        assert "\n" not in str(found.value)
    assert numbers(data) == epoch_of(rows, 0)


def set_group(monkeypatch: pytest.MonkeyPatch, rank: int, ranks: int) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: ranks)


@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_a_process_group_that_comes_later(rows: Path, monkeypatch: pytest.MonkeyPatch, method: str | None) -> None:
    data = dataset(rows)
    reader = DataLoader(data, batch_size=None, num_workers=2 if method else 0, multiprocessing_context=method)
    set_group(monkeypatch, 1, 2)  # which a process that is spawned does not have

    assert numbers(reader) == numbers(dataset(rows, rank=1, world_size=2))
    assert (data.rank, data.world_size) == (1, 2)


SPAWNED = """
import sys, torch, shardmill, shardmill.torch
from torch.utils.data import DataLoader

def run(rank, data, group, workers):
    torch.distributed.init_process_group("gloo", init_method=f"file://{group}{workers}", rank=rank, world_size=2)
    for epoch in range(2):
        for batch in DataLoader(data, batch_size=None, num_workers=workers):
            with open(f"{group}-{rank}", "a") as file:
                print(epoch, *batch["n"].tolist(), file=file)

if __name__ == "__main__":
    source = shardmill.source(sys.argv[1], features=["n"])
    data = shardmill.torch.Dataset(source, batch_size=8, remainder="drop", seed=5)
    torch.multiprocessing.spawn(run, (data, sys.argv[2], int(sys.argv[3])), 2)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_spawned_ranks_are_given(rows: Path, tmp_path: Path, workers: int) -> None:
    (script := tmp_path / "train.py").write_text(SPAWNED)
    command = [sys.executable, "-W", "ignore", str(script), str(rows), f"{tmp_path}/group", str(workers)]
    subprocess.run(command, check=True)
    lines = "".join((tmp_path / f"group-{rank}").read_text() for rank in range(2)).splitlines()
    for epoch in range(2):
        found = [[int(number) for number in line.split()[1:]] for line in lines if line.startswith(f"{epoch} ")]
        assert len(found) == 24
        assert sorted(joined(found)) == sorted(joined(epoch_of(rows, epoch)))


def test_a_process_group_that_workers_do_not_know(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = loader(dataset(rows), 2)
    numbers(reader)
    set_group(monkeypatch, 1, 2)
    with pytest.raises(UserError, match="worker processes were started as rank 0 of 1, and this is rank 1 of 2; make"):
        next(iter(reader))


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, (1, 2)),
        ({"WORLD_SIZE": "1", "SLURM_STEP_NUM_TASKS": "1"}, (0, 1)),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "WORLD_SIZE=2"),
        ({"RANK": "0"}, "RANK=0"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK=one, WORLD_SIZE=2"),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_SIZE=4"),
    ],
)
def test_variables_that_come_later(rows: Path, variables: dict[str, str], found: Any, monkeypatch: Any) -> None:
    data = dataset(rows)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(found, str):
        for workers in (0, 2):
            with pytest.raises(UserError, match=f"the environment has {found}, from which this process's rank is not"):
                next(iter(loader(data, workers)))
        set_group(monkeypatch, *(found := (1, 2)))  # which helps
    assert numbers(data) == numbers(dataset(rows, rank=found[0], world_size=found[1]))


class Wrapper(IterableDataset[Any]):
    """A wrapper that may divide batches among ranks, as `split_dataset_by_node` does."""

    def __init__(self, data: Any, rank: int = 0, ranks: int = 1) -> None:
        self.data, self.rank, self.ranks = data, rank, ranks

    def __iter__(self) -> Any:
        return (batch for number, batch in enumerate(self.data) if number % self.ranks == self.rank)


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_that_may_divide_again(rows: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_group(monkeypatch, 1, 2)
    with pytest.raises(UserError, match="give rank=0 and world_size=1 if it does, else rank=1 and world_size=2"):
        next(iter(loader(Wrapper(dataset(rows), 1, 2), workers)))
    parts = [numbers(loader(Wrapper(dataset(rows, rank=0, world_size=1), rank, 2), workers)) for rank in range(2)]
    assert sorted(chain(*parts)) == sorted(numbers(dataset(rows, rank=0, world_size=1)))
    own = dataset(rows, rank=1, world_size=2)
    assert sorted(numbers(loader(Wrapper(own), workers))) == sorted(numbers(dataset(rows)))
    chained = ChainDataset([dataset(rows), dataset(rows)])
    assert len(numbers(loader(chained, workers))) == 24
    monkeypatch.undo()  # PyTorch asks a real group
    with pytest.raises(UserError, match=r"leave out sharding_filter.*give deepcopy=False to"):
        next(iter(loader(IterableWrapper(own).sharding_filter(), workers)))


@pytest.mark.parametrize("dispatch", [True, False])
def test_accelerate_is_told_that_it_divides_again(rows: Path, dispatch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_group(monkeypatch, 0, 2)
    data, state = dataset(rows), accelerate.PartialState(cpu=True)
    monkeypatch.setattr(state, "num_processes", 2)
    ranks = {"num_processes": 2, "process_index": 0, "dispatch_batches": dispatch, "put_on_device": True}
    prepared = prepare_data_loader(loader(data, 0), **ranks)
    with pytest.raises(UserError, match="do not give this loader to Accelerate's prepare"):
        next(iter(prepared))
    set_group(monkeypatch, 0, 1)
    data.load_state_dict({**data.state_dict(0), "epoch": 3, "batch": 9})
    alone = prepare_data_loader(loader(data, 0), num_processes=1, process_index=0)
    with pytest.raises(UserError, match=r"the loaded state is of epoch 3; call set_epoch\(3\) of the prepared loader"):
        next(iter(alone))
    alone.set_epoch(3)
    assert [numbers(alone) for _ in range(2)] == [epoch_of(rows, 3)[9:], epoch_of(rows, 4)]


@pytest.mark.parametrize(
    ("example", "first", "second"),
    [
        ("torch_ddp", "{python} {example} {flags} --processes 2 --workers 2", "{bin}/torchrun {example} {flags}"),
        (
            "torch_ddp",
            "{bin}/torchrun --nproc_per_node 2 {example} {flags}",
            "{python} {example} {flags} --processes 1",
        ),
        (
            "torch_accelerate",
            "{bin}/torchrun --nproc_per_node 2 {example} {flags} --workers 2",
            "{bin}/accelerate launch --cpu --num_processes 1 {example} {flags}",
        ),
        ("torch_lightning", "{python} {example} {flags} --processes 2 --workers 2", "{python} {example} {flags}"),
        ("torch_trainer", "{bin}/torchrun --nproc_per_node 2 {example} {flags}", "{python} {example} {flags}"),
    ],
)
def test_loops_of_frameworks(rows: Path, tmp_path: Path, example: str, first: str, second: str) -> None:
    """On two processes until the second epoch, then on one: each example once an epoch, in another order each time."""
    names = {"python": sys.executable, "bin": Path(sys.executable).parent, "example": f"examples/{example}.py"}
    for command, more in ((first, " --stop 18"), (second, "")):
        words = command.format(**names, flags=f"{rows} {tmp_path}{more}").split()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        subprocess.run(words, cwd=REPOSITORY, env=environment, check=True, timeout=300)

    seen: dict[int, list[int]] = {}
    for file in sorted(tmp_path.glob("seen-*")):
        for epoch, *ids in (map(int, line.split()) for line in file.read_text().splitlines()):
            seen.setdefault(epoch, []).extend(ids)
    assert [sorted(seen.pop(epoch)) for epoch in list(seen)] == [list(range(ROWS))] * 3


@pytest.mark.parametrize("page", ["read-pytorch", "resume-training", "train", "read-grain", "array-record"])
def test_pages(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their commands, and what they have in Python for PyTorch, run as they stand."""
    own = folder / page
    own.mkdir()
    photos = np.random.default_rng(0).integers(0, 256, (40, 32, 24, 3), np.uint8)
    for number, photo in enumerate(photos):
        path = own / "photos" / ("rose", "tulip")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo).save(path)
    monkeypatch.chdir(own)
    monkeypatch.setenv("PATH", f"{Path(os.environ['SHARDMILL']).parent}{os.pathsep}{os.environ['PATH']}")
    program = list[str]()
    for language, text in re.findall(
        r"^```(\w*)\n(.*?)^```$", (REPOSITORY / f"docs/{page}.md").read_text(), re.M | re.S
    ):
        if language == "sh":
            text = text.replace("python examples/", f"python {REPOSITORY}/examples/")
            subprocess.run(["bash", "-e", "-c", text], check=True)
        elif language == "python" and "tensorflow" not in text and "keras" not in text:
            program.append(text)
    assert len(program) == (1 if page == "array-record" else 2)
    (own / "page.py").write_text("".join(program))
    ran = subprocess.run([sys.executable, "page.py"], check=False, capture_output=True, text=True)
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr


def test_digits_are_learned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (REPOSITORY / "examples/torch_digits.py").read_text()
    write, converted, _ = re.findall(r"^((?:python|shardmill) .*)$", program, re.M)
    python = Path(os.environ["SHARDMILL"]).with_name("python")
    subprocess.run([python, REPOSITORY / write.split()[1], *write.split()[2:]], cwd=folder, check=True)
    subprocess.run([os.environ["SHARDMILL"], *converted.split()[1:]], cwd=folder, check=True)

    def learn(example: str, *flags: str) -> float:
        command = [sys.executable, str(REPOSITORY / "examples" / example), "datasets/digits", *flags]
        return float(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1])

    monkeypatch.chdir(folder)
    page = (REPOSITORY / "README.md").read_text()
    (snippet,) = re.findall(r"^```python\n(import shardmill.torch.*?)^```$", page, re.M | re.S)
    names: dict[str, Any] = {}
    exec(snippet, names)
    assert next(iter(names["batches"]))["image"].shape == (32, 3, 64, 64)
    assert learn("torch_digits.py") >= 0.85
    through = learn("grain_digits.py", "--checkpoint", "through.pickle")
    learn("grain_digits.py", "--steps", "50")
    assert learn("grain_digits.py") == through >= 0.85
    assert (folder / "grain_digits.pickle").read_bytes() == (folder / "through.pickle").read_bytes()


def test_nothing_heavy_is_imported() -> None:
    """Before the tests of damage, whose messages look for the part that converts."""
    assert not {name.split(".")[0] for name in sys.modules} & {"apache_beam", "pyarrow", "tensorflow"}
    assert not any(name.startswith(("shardmill.pipelines", "shardmill.transforms")) for name in sys.modules)


def test_a_damaged_data_set_is_an_error_or_is_whole(rows: Path, tmp_path: Path) -> None:
    def read(version: Path) -> list[int]:
        return joined(numbers(dataset(version, batch_size=1)))

    assert check_damages(rows / "1.0.0", tmp_path, range(400), read) > 80


@pytest.mark.parametrize("name", ["manifest.json", "_SUCCESS"])
def test_damaged_metadata_without_pyarrow(rows: Path, tmp_path: Path, name: str) -> None:
    """The last, for the search for files of others imports modules of the commands before it finds no Arrow."""
    damaged = shutil.copytree(rows, tmp_path / "rows") / "1.0.0" / name
    damaged.write_bytes(damaged.read_bytes()[:-3])
    with pytest.raises(CorruptDataError, match=name):
        shardmill.source(tmp_path / "rows")
