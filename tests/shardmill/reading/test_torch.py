"""examples in PyTorch's DataLoader: its default collation, and epochs of workers that persist."""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import shardmill
from tests.support.command import REPOSITORY, Run, image_tree, write_files
from tests.support.pages import blocks
from tests.support.reading import ROWS, row


class Rows(torch.utils.data.IterableDataset):
    """Rows, each process of the loader its own; in the order of `epoch` if they are shuffled."""

    def __init__(self, directory: Path, shuffle: bool = False, **options: Any) -> None:
        self.directory, self.shuffle, self.options = directory, shuffle, options
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = torch.utils.data.get_worker_info()
        options = {"num_workers": worker.num_workers, "worker_index": worker.id} if worker else {}
        if self.shuffle:
            options |= {"shuffle_buffer_size": 50, "seed": int(self.epoch)}
        yield from shardmill.examples(self.directory, **options, **self.options)


@pytest.mark.parametrize("workers", [0, 2])
def test_default_collation_of_missing_values(rows_in_four_shards: Path, workers: int) -> None:
    names = ["n", "x", "word", "pair", "city", "age", "note"]
    rows = Rows(rows_in_four_shards, features=names, defaults={"age": -1, "note": "none"})
    seen = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # PyTorch warns of arrays that cannot be written
        for batch in torch.utils.data.DataLoader(rows, batch_size=8, num_workers=workers):
            assert {name: str(getattr(value, "dtype", type(value[0]).__name__)) for name, value in batch.items()} == {
                "n": "torch.int64", "x": "torch.float32", "pair": "torch.int64", "city": "torch.int64",
                "age": "torch.int64", "word": "bytes", "note": "bytes",
            }  # fmt: skip
            for index, number in enumerate(batch["n"].tolist()):
                seen[number] = {name: values[index] for name, values in batch.items()}
    assert sorted(seen) == list(range(ROWS))
    for number, found in seen.items():
        expected = {"age": -1, "note": "none", **row(number)}
        assert found["pair"].tolist() == expected["pair"]
        assert (int(found["age"]), found["note"].decode()) == (expected["age"], expected["note"])
        assert (found["word"].decode(), float(found["x"])) == (expected["word"], expected["x"])


@pytest.mark.parametrize("persistent", [True, False])
def test_an_epoch_reaches_workers(rows_in_four_shards: Path, persistent: bool) -> None:
    rows = Rows(rows_in_four_shards, shuffle=True, features=["n"])
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2, persistent_workers=persistent)
    orders = []
    for epoch in (0, 1, 0):
        rows.epoch.fill_(epoch)
        orders.append([int(example["n"]) for example in loader])
    assert [sorted(order) for order in orders] == [list(range(ROWS))] * 3
    assert orders[0] == orders[2] != orders[1]


@pytest.mark.parametrize("interrupted_at", [1, 4, 6, 8])
def test_training_is_resumed_as_the_page_says(
    interrupted_at: int, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each image is seen once in each epoch, whichever batch the first program ends at."""
    write_files(tmp_path / "photos", image_tree(["cat", "dog"], 20))
    monkeypatch.chdir(tmp_path)
    _command, _principle, training = blocks(REPOSITORY / "docs" / "resume-training.md")
    assert "...  # a training step" in training.text
    flags = ("--input", "photos", "--output", "datasets", "--name", "flowers", "--num_shards", 2, "--folders", "label")
    assert run("images", *flags).status == 0
    seen: list[bytes] = []
    numbers = itertools.count(1)

    def step(images: torch.Tensor) -> None:
        if next(numbers) == interrupted_at:
            raise KeyboardInterrupt
        seen.extend(image.numpy().tobytes() for image in images)

    # Images of one size, for the default collation
    code = training.text.replace("...  # a training step", "step(images)").replace('("RGB")', '("RGB").resize((8, 8))')
    with pytest.raises(KeyboardInterrupt):
        exec(code, {"step": step})
    exec(code, {"step": step})

    assert sorted(seen[:40]) == sorted(set(seen))
    assert sorted(seen[40:]) == sorted(set(seen))
    assert len(set(seen)) == 40
