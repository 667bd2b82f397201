"""Read data sets in PyTorch: batches of tensors in one order for any number of ranks and workers.

The extra `torch` installs PyTorch.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat, tee
from typing import Any, Literal

import numpy as np

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.reading.order import GlobalBatches, Order
from shardmill.reading.plain_examples import check_complete
from shardmill.reading.source import Source

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise UserError(f"shardmill.torch needs PyTorch; {install_hint('torch')}") from None
from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

PADDING = "is_padding"  # key of a batch
_FORMAT = 1  # of states
_ORDERED = 4096  # positions that are looked up in the order together: a call takes longer than the work for a batch
_SMALL_BYTES = 64 << 10  # of a tensor that is sent faster through a pipe than in shared memory


class _Batch(dict[str, Any]):
    """A batch that worker processes send fast: a small tensor in shared memory takes a third of a millisecond."""

    def __copy__(self) -> "_Batch":  # by the DataLoader, which converts values
        return _Batch(self)

    def __reduce__(self) -> tuple[Any, ...]:
        small = {
            name: value.numpy()
            for name, value in self.items()
            if isinstance(value, torch.Tensor) and value.dtype in _SENT and value.nbytes <= _SMALL_BYTES
        }
        return _restore, ({**self, **small}, tuple(small))


_SENT = (torch.int64, torch.float32, torch.bool)


def _restore(values: dict[str, Any], arrays: tuple[str, ...]) -> dict[str, Any]:
    return {name: torch.from_numpy(value) if name in arrays else value for name, value in values.items()}


class Dataset(IterableDataset[dict[str, Any]]):
    """Batches of a source in a shuffled order, which is the same for any number of ranks and worker processes.

    ```python
    source = shardmill.source("datasets/flowers", decode=True, image_size=(224, 224))
    dataset = shardmill.torch.Dataset(source, batch_size=256, remainder="drop")
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=4, persistent_workers=True)
    for epoch in range(dataset.epoch, 90):
        dataset.set_epoch(epoch)
        for batches, batch in enumerate(loader, dataset.first_batch + 1):
            train_step(batch["image"], batch["label"])
            torch.save(dataset.state_dict(batches), "state.pt")
    ```

    A batch is a dictionary by feature name. Numbers and boolean values are tensors (batch, …). Images and masks that
    are decoded to one size are tensors of uint8 or uint16 (batch, channels, height, width). Bytes, and values whose
    shape differs between examples, are lists with an entry for each example.

    Each rank reads its part of each global batch. `batch_size=None` in the DataLoader keeps these batches as they are.

    Args:
        source: the examples, from `shardmill.source`.
        batch_size: number of examples in a batch of all ranks together.
        remainder: "drop" leaves out the last batch of an epoch if it would be smaller; each epoch leaves out other
            examples. "pad" fills it with examples from the start of the order. Each batch then has the key
            `is_padding`, a tensor of bool.
        shuffle: False reads the examples in the order of the shards.
        seed, block, window: of the order, see `shardmill.Order`. `block=1` is a full shuffle; larger blocks need fewer
            requests of an object store.
        rank, world_size: of this process; None takes them from torch.distributed if its process group is initialized,
            else from the environment variables RANK and WORLD_SIZE, which torchrun sets, else 0 and 1.
        transform: function of each example, a dictionary of NumPy values, before it becomes a part of a batch. Its
            result may have other names; arrays that all have one shape are stacked.

    Raises:
        UserError: if a value is out of range, a feature may be missing and has no default, or there are more ranks than
            examples in a batch.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        remainder: Literal["drop", "pad"],
        shuffle: bool = True,
        seed: int = 0,
        block: int = 1,
        window: int = 64,
        rank: int | None = None,
        world_size: int | None = None,
        transform: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        if (rank is None) != (world_size is None):
            raise UserError("give both rank and world_size, or neither")
        self.source, self._transform, self._is_given = source, transform, rank is not None
        self.rank, self.world_size = _find_rank() if rank is None or world_size is None else (rank, world_size)
        self._order = Order(len(source), seed, 0, block, window)
        self._shuffle = shuffle
        self._batches = GlobalBatches(len(source), batch_size, remainder)
        if not self._batches:
            raise UserError(
                f"a batch has {batch_size} examples, and there are {len(source)}; remainder='drop' leaves out all"
            )
        self._batches.positions(0, self.rank, self.world_size)  # which checks both
        check_complete(source.features, source.defaults)
        if remainder == "pad" and any(feature.name == PADDING for feature in source.features):
            raise UserError(f"a feature is called {PADDING!r}, as the mark of padding is; choose other features")
        self._lists = frozenset() if transform else frozenset(f.name for f in source.features if self._is_list(f))
        self._images = frozenset() if transform else frozenset(f.name for f in source.features if self._is_image(f))
        is_decoded = transform is not None or source.decode or any(feature.is_packed for feature in source.features)
        self._has_plain_columns = not is_decoded  # a batch is what `read_columns` returns
        # In shared memory, which reaches worker processes that persist: epoch, first batch, and 1 once workers read
        self._shared = torch.zeros(3, dtype=torch.int64).share_memory_()
        self._next = 0  # the batch after the last one that this process has given out
        self._own: int | None = None  # the first batch of a worker process that continues from a state of its own

    def _is_image(self, feature: Feature) -> bool:
        return self.source.decode and feature.kind in ("image", "mask")

    def _is_list(self, feature: Feature) -> bool:
        if self._is_image(feature):
            return self.source.image_size is None
        return None in feature.shape or (feature.dtype == "bytes" and not feature.is_packed)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, which is the same on each rank."""
        return len(self._batches)

    @property
    def epoch(self) -> int:
        """Return the epoch that is read next: that of `set_epoch` or of a loaded state."""
        return int(self._shared[0])

    @property
    def first_batch(self) -> int:
        """Return the batch that the epoch begins with: 0 unless a state was loaded."""
        return int(self._shared[1])

    def set_epoch(self, epoch: int) -> None:
        """Select the order of an epoch. Call this before each epoch; otherwise all have the same order.

        The epoch of a loaded state continues where the state was saved, and all others begin with their first batch.
        """
        self._check_rank()
        if epoch != self.epoch:
            self._begin(replace(self._order, epoch=epoch).epoch, 0)

    def _begin(self, epoch: int, batch: int) -> None:
        self._shared[0], self._shared[1], self._next = epoch, batch, batch

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return what `load_state_dict` takes to continue with the next batch, on any number of ranks and workers.

        Args:
            batches: number of batches of this epoch that the training loop has taken, those before an interruption
                included. None counts those that this process has read, which is right without worker processes:
                workers read ahead. torchdata's StatefulDataLoader calls this in its workers and needs no number.

        Raises:
            UserError: if `batches` is None and workers read ahead, or there are not as many batches.
        """
        self._check_rank()
        worker = get_worker_info()
        if worker is None and batches is None and self._shared[2]:
            raise UserError(
                "worker processes read ahead of the training loop; give the number of batches of this epoch that it has"
                " taken, as state_dict(batches)"
            )
        batch = self._next if batches is None else batches
        if worker is None and not 0 <= batch <= len(self):
            raise UserError(f"batches is {batch}; an epoch has {len(self)}")
        place = {"epoch": self.epoch, "batch": batch, "worker": worker and [worker.id, worker.num_workers]}
        return {"format": _FORMAT, **self._identity(), **place}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was called: with the next batch of its epoch.

        Raises:
            UserError: if the state is of other data, another split, order or batch size, or of a worker process.
        """
        if state.get("format") != _FORMAT:
            raise UserError("this is no state of shardmill.torch.Dataset, or one of a newer version")
        for name, here in self._identity().items():
            if state.get(name) != here:
                raise UserError(f"the state is of another {name}: {state.get(name)!r}, and here it is {here!r}")
        worker = get_worker_info()
        if state["worker"] != (worker and [worker.id, worker.num_workers]):
            raise UserError(
                "the state is of worker {} of {}, and a DataLoader's state needs as many workers as it was saved with;"
                " `dataset.state_dict(batches)` saves one for any number".format(*state["worker"] or (0, 0))
            )
        if worker is None:
            self._begin(state["epoch"], state["batch"])
        else:
            self._shared[0], self._own = state["epoch"], state["batch"]

    def _identity(self) -> dict[str, Any]:
        order, batches = self._order, self._batches
        return {
            "data": self.source.fingerprint,
            "order": [order.n, order.seed, order.block, order.window] if self._shuffle else [order.n],
            "batch_size": batches.batch_size,
            "remainder": batches.remainder,
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._check_rank()
        worker = get_worker_info()
        self._next, step = self.first_batch, 1
        if worker is not None:
            self._shared[2] = 1
            self._next, step = self._next + worker.id, worker.num_workers
            if self._own is not None:
                self._next, self._own = self._own, None
        # Not in the generator, which begins with the first batch: torchdata asks for the state before
        return self._read(range(self._next, len(self), step), replace(self._order, epoch=self.epoch))

    def _read(self, batches: range, order: Order) -> Iterator[dict[str, Any]]:
        chosen, ahead = tee(self._choose(batches, order))
        is_stored = self.source.reads_ahead
        examples = self.source.read_batches(numbers.tolist() for _, _, numbers in ahead) if is_stored else repeat(None)
        for (batch, positions, numbers), some in zip(chosen, examples, strict=False):
            values = _Batch(self._read_batch(numbers) if some is None else self._collate(some))
            if self._batches.remainder == "pad":
                values[PADDING] = torch.from_numpy(positions >= len(order))
            self._next = batch + batches.step
            yield values
        if get_worker_info() is None:
            self._shared[1] = 0  # what follows is another epoch

    def _choose(self, batches: range, order: Order) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        together = max(_ORDERED // self._batches.batch_size, 1)
        for first in range(0, len(batches), together):
            some = batches[first : first + together]
            positions = [self._batches.positions(batch, self.rank, self.world_size) for batch in some]
            numbers = np.concatenate(positions) % len(order)
            chosen = np.asarray(order[numbers]) if self._shuffle else numbers
            ends = np.cumsum([len(of_batch) for of_batch in positions])
            yield from zip(some, positions, np.split(chosen, ends[:-1]), strict=True)

    def _read_batch(self, numbers: np.ndarray) -> dict[str, Any]:
        columns = self.source.read_columns(numbers) if self._has_plain_columns else None
        if columns is None:
            return self._collate(self.source.__getitems__(numbers.tolist()))
        return {
            name: values if isinstance(values, list) else torch.from_numpy(values) for name, values in columns.items()
        }

    def _collate(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if self._transform is not None:
            examples = [self._transform(dict(example)) for example in examples]
        names = examples[0] if self._transform is not None else [feature.name for feature in self.source.features]
        return {name: self._stack(name, [example.get(name, _NOTHING) for example in examples]) for name in names}

    def _stack(self, name: str, values: list[Any]) -> Any:
        if name in self._images:
            values = [np.moveaxis(value, -1, 0) for value in values]
        if isinstance(values[0], torch.Tensor) and len({value.shape for value in values}) == 1:
            return torch.stack(values)
        if not isinstance(values[0], (np.ndarray, np.generic, int, float)):
            return values
        arrays = [np.ascontiguousarray(value) for value in values]
        if name in self._lists or len({array.shape for array in arrays}) > 1:
            return [torch.from_numpy(array) for array in arrays]
        return torch.from_numpy(np.stack(values))

    def _check_rank(self) -> None:
        if self._is_given or not (distributed.is_available() and distributed.is_initialized()):
            return
        if (found := _find_rank()) != (self.rank, self.world_size):
            raise UserError(
                f"the process group makes this rank {found[0]} of {found[1]}, and the dataset was made as rank"
                f" {self.rank} of {self.world_size}; make it after init_process_group, or give rank and world_size"
            )


_NOTHING = np.empty(0)  # a list of any length that is missing


def _find_rank() -> tuple[int, int]:
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
