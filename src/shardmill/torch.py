"""Read data sets in PyTorch: batches of tensors in one order for any number of ranks and workers.

The extra `torch` installs PyTorch.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import repeat, tee
from typing import Any, Literal
from weakref import WeakSet

import numpy as np

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.reading.order import GlobalBatches, Order, check_range
from shardmill.reading.plain_examples import check_complete
from shardmill.reading.source import Source

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise UserError(f"shardmill.torch needs PyTorch; {install_hint('torch')}") from None
from torch import distributed
from torch.utils.data import ChainDataset, IterableDataset, get_worker_info
from torch.utils.data import Dataset as TorchDataset

PADDING = "is_padding"  # key of a batch
_FORMAT = 1  # of states
_ORDERED = 4096  # positions that are looked up in the order together: a call takes longer than the work for a batch
_SMALL_BYTES = 64 << 10  # of a tensor that is sent faster through a pipe than in shared memory
_MOST = (1 << 63) - 1  # epochs, which shared memory holds
_ROWS = 61  # passes of loaders that are remembered for workers which begin them late
_PATIENCE_S = 120  # for worker 0 of a loader, which begins each pass
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")  # of launchers that do not set RANK
_DIVIDERS = ("DataLoaderDispatcher", "IterableDatasetShard")  # of Accelerate, and the second one of transformers


class _Batch(dict[str, Any]):
    """A batch that worker processes send fast: a small tensor in shared memory takes a third of a millisecond."""

    rank: tuple[int, int] | None = None  # with the number of ranks, if they are not given but found

    def __copy__(self) -> "_Batch":  # by the DataLoader, which converts values
        copied = _Batch(self)
        copied.rank = self.rank
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        small = {
            name: value.numpy()
            for name, value in self.items()
            if isinstance(value, torch.Tensor) and value.dtype in _SENT and value.nbytes <= _SMALL_BYTES
        }
        return _restore, ({**self, **small}, tuple(small), self.rank if get_worker_info() else None)


_SENT = (torch.int64, torch.float32, torch.bool)


def _restore(values: dict[str, Any], arrays: tuple[str, ...], rank: tuple[int, int] | None) -> dict[str, Any]:
    if rank is not None and rank != (found := _find_rank()):  # a process group of later than workers that persist
        raise UserError(
            f"worker processes were started as rank {rank[0]} of {rank[1]}, and this is rank {found[0]} of {found[1]};"
            " make the DataLoader after init_process_group"
        )
    return {name: torch.from_numpy(value) if name in arrays else value for name, value in values.items()}


class Dataset(IterableDataset[dict[str, Any]]):
    """Batches of a source in a shuffled order, which is the same for any number of ranks and worker processes.

    ```python
    source = shardmill.source("datasets/flowers", decode=True, image_size=(224, 224))
    dataset = shardmill.torch.Dataset(source, batch_size=256, remainder="drop")
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=4, persistent_workers=True)
    for epoch in range(dataset.epoch, 90):
        for batches, batch in enumerate(loader, dataset.first_batch + 1):
            train_step(batch["image"], batch["label"])
            torch.save(dataset.state_dict(batches), "state.pt")
    ```

    A batch is a dictionary by feature name. Numbers and boolean values are tensors (batch, …). Images and masks that
    are decoded to one size are tensors of uint8 or uint16 (batch, channels, height, width). Bytes, and values whose
    shape differs between examples, are lists with an entry for each example.

    Each rank reads its part of each global batch. `batch_size=None` in the DataLoader keeps these batches as they are.
    Each pass is the next epoch, in another order. The first pass after `load_state_dict` is the rest of its epoch.

    Args:
        source: the examples, from `shardmill.source`.
        batch_size: number of examples in a batch of all ranks together.
        remainder: "drop" leaves out the last batch of an epoch if it would be smaller; each epoch leaves out other
            examples. "pad" fills it with examples from the start of the order. Each batch then has the key
            `is_padding`, a tensor of bool.
        shuffle: False reads the examples in the order of the shards.
        seed, block, window: of the order, see `shardmill.Order`. `block=1` is a full shuffle; larger blocks need fewer
            requests of an object store.
        rank, world_size: of this process; None takes them, when a pass begins, from torch.distributed if its process
            group is initialized, else from the environment variables RANK and WORLD_SIZE, which torchrun sets, else 0
            and 1.
        transform: function of each example, a dictionary of NumPy values, before it becomes a part of a batch. Its
            result may have other names; arrays that all have one shape are stacked.

    Raises:
        UserError: if a value is out of range, a feature may be missing and has no default, or there are more ranks than
            examples in a batch. When a pass begins, if the rank is not known, or another loader divides batches again.
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
        self.source, self._transform = source, transform
        self._given = None if rank is None or world_size is None else (rank, world_size)
        self._order = Order(len(source), seed, 0, block, window)
        self._shuffle = shuffle
        self._batches = GlobalBatches(len(source), batch_size, remainder)
        if not self._batches:
            raise UserError(
                f"a batch has {batch_size} examples, and there are {len(source)}; remainder='drop' leaves out all"
            )
        self._batches.positions(0, *self._given or (0, 1))  # which checks both
        check_complete(source.features, source.defaults)
        if remainder == "pad" and any(feature.name == PADDING for feature in source.features):
            raise UserError(f"a feature is called {PADDING!r}, as the mark of padding is; choose other features")
        self._lists = frozenset() if transform else frozenset(f.name for f in source.features if self._is_list(f))
        self._images = frozenset() if transform else frozenset(f.name for f in source.features if self._is_image(f))
        is_decoded = transform is not None or source.decode or any(feature.is_packed for feature in source.features)
        self._has_plain_columns = not is_decoded  # a batch is what `read_columns` returns
        # In shared memory, which reaches worker processes: epoch, first batch, 1 once its pass has begun, 1 once
        # workers read, and rows of passes of loaders: key, epoch, first batch
        self._shared = torch.zeros(4 + 3 * _ROWS, dtype=torch.int64)
        self._owner = (0, 0)  # process and object that the memory belongs to
        self._found: tuple[int, int] | None = None  # rank and number of ranks when worker processes were started
        self._started = self._passes = 0  # worker processes that were started, and passes of this one
        self._next = (0, 0)  # epoch and batch after the last one that this process has given out
        self._own: tuple[int, int] | None = None  # where a worker process continues from a state of its own
        _LIVE.add(self)

    def __getstate__(self) -> dict[str, Any]:
        self._prepare_worker()
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _LIVE.add(self)

    def _prepare_worker(self) -> None:
        """Note, before a process is started, what it cannot find out itself if it is a loader's worker."""
        if get_worker_info() is None:
            self._own_memory()
            self._started, self._found = self._started + 1, None
            with suppress(UserError):  # the worker finds the same fault
                self._found = self._find_rank()

    def _own_memory(self) -> None:
        """Take shared memory for this object in this process: a launcher may start all ranks with one dataset."""
        if self._owner != (owner := (os.getpid(), id(self))):
            self._owner, self._shared = owner, self._shared.clone().share_memory_()

    def _find_rank(self) -> tuple[int, int]:
        found = self._given or (self._found if get_worker_info() else None) or _find_rank()
        self._batches.positions(0, *found)  # which checks both
        return found

    @property
    def rank(self) -> int:
        """Return the rank of this process."""
        return self._find_rank()[0]

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self._find_rank()[1]

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
        """Return the epoch of the pass that began last; before that, and after `set_epoch`, of the one that is next."""
        return int(self._shared[0])

    @property
    def first_batch(self) -> int:
        """Return the batch that the next pass begins with: 0 unless a state was loaded."""
        return 0 if self._shared[2] else int(self._shared[1])

    def set_epoch(self, epoch: int) -> None:
        """Select the order of the next pass. Without this, each pass is the epoch after the last one.

        The epoch of a loaded state continues where the state was saved, and all others begin with their first batch.
        """
        epoch = check_range("epoch", epoch, 0, _MOST)
        loader = self._check_callers(self._find_rank())
        if epoch != self.epoch and self.first_batch and loader is not None:
            raise UserError(
                f"Accelerate's loader begins epoch {epoch} by its own count, and the loaded state is of epoch"
                f" {self.epoch}; call set_epoch({self.epoch}) of the prepared loader first"
            )
        if epoch != self.epoch or self._shared[2]:
            self._begin(epoch, 0)

    def _begin(self, epoch: int, batch: int) -> None:
        self._own_memory()
        self._shared[:3] = torch.tensor([epoch, batch, 0])
        self._next = epoch, batch

    def _check_callers(self, rank: tuple[int, int]) -> Any:
        """Check that nobody divides the batches of a rank again; return the loader of Accelerate that reads them."""
        frame, loader, (own, ranks) = sys._getframe(), None, rank
        while frame := frame.f_back:  # type: ignore[assignment]
            kind = type(caller := frame.f_locals.get("self"))
            name, is_dataset = kind.__name__, issubclass(kind, TorchDataset) and kind is not ChainDataset
            loader = caller if kind.__module__ == "accelerate.data_loader" else loader
            if ranks > 1 and name in _DIVIDERS:
                raise UserError(
                    f"{name} divides among the ranks what each rank reads for itself, and most examples would be left"
                    " out; do not give this loader to Accelerate's prepare, and in a Trainer of transformers return it"
                    " from get_train_dataloader"
                )
            if is_dataset and (getattr(caller, "num_of_instances", 1) > 1 or getattr(caller, "deepcopy", False)):
                raise UserError(
                    "leave out sharding_filter, for the batches are divided already, and give deepcopy=False to"
                    " IterableWrapper, which else begins each pass with a copy of this dataset"
                )
            if is_dataset and ranks > 1 and caller is not self and self._given is None:
                raise UserError(
                    f"{name} reads this dataset, and may divide among the {ranks} ranks what each reads for itself;"
                    f" give rank=0 and world_size=1 if it does, else rank={own} and world_size={ranks}"
                )
        return loader

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return what `load_state_dict` takes to continue with the next batch, on any number of ranks and workers.

        Args:
            batches: number of batches of this epoch that the training loop has taken, those before an interruption
                included. None counts those that this process has read, which is right without worker processes:
                workers read ahead. torchdata's StatefulDataLoader calls this in its workers and needs no number.

        Raises:
            UserError: if `batches` is None and workers read ahead, or there are not as many batches.
        """
        worker = get_worker_info()
        if worker is None and batches is None and self._shared[3]:
            raise UserError(
                "worker processes read ahead of the training loop; give the number of batches of this epoch that it has"
                " taken, as state_dict(batches)"
            )
        epoch, batch = self._next if batches is None else (self.epoch, check_range("batches", batches, 0, len(self)))
        place = {"epoch": epoch, "batch": batch, "worker": worker and [worker.id, worker.num_workers]}
        return {"format": _FORMAT, **self._identity(), **place}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was called: with the next batch of its epoch.

        Raises:
            UserError: if the state is of other data, another split, order or batch size, or of a worker process.
        """
        if not isinstance(state, Mapping) or repr(state.get("format")) != repr(_FORMAT):
            raise UserError("this is no state of shardmill.torch.Dataset, or one of a newer version")
        for name, here in self._identity().items():
            if repr(state.get(name)) != repr(here):
                raise UserError(f"the state is of another {name}: {state.get(name)!r}, and here it is {here!r}")
        info = get_worker_info()
        here = info and [info.id, info.num_workers]
        if repr(state.get("worker")) != repr(here):
            raise UserError(
                f"the state is of [worker, workers] {state.get('worker')!r}, and this is {here}: a DataLoader's state"
                " needs as many workers as it was saved with; `dataset.state_dict(batches)` saves one for any number"
            )
        epoch = check_range("the state's epoch", state.get("epoch"), 0, _MOST)
        batch = check_range("the state's batch", state.get("batch"), 0, len(self) + (info.num_workers if info else 0))
        if info is None:
            self._begin(epoch, batch)
        else:
            self._own = epoch, batch

    def _identity(self) -> dict[str, Any]:
        order, batches = self._order, self._batches
        return {
            "data": self.source.fingerprint,
            "order": [order.n, order.seed, order.block, order.window] if self._shuffle else [order.n],
            "batch_size": batches.batch_size,
            "remainder": batches.remainder,
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._check_callers(rank := self._find_rank())
        worker = get_worker_info()
        # Not in the generator, which begins with the first batch: torchdata asks for the state before
        epoch, first = self._next = self._begin_pass() if worker is None else self._join_pass(worker.id)
        batches = range(first, len(self), worker.num_workers if worker else 1)
        return self._read(batches, replace(self._order, epoch=epoch), rank)

    def _begin_pass(self) -> tuple[int, int]:
        if get_worker_info() is None:
            self._own_memory()
        epoch, first = self._own or ((self.epoch + 1, 0) if self._shared[2] else (self.epoch, self.first_batch))
        self._shared[:3] = torch.tensor([epoch, first, 1])
        return epoch, first

    def _join_pass(self, worker: int) -> tuple[int, int]:
        """Return epoch and first batch of a worker of a loader; worker 0 begins the pass of all of them."""
        self._passes += 1
        started = self._started - worker  # the same for all workers of a loader, which are started one by one
        key, row = (started << 24) + self._passes, self._shared[4:].view(-1, 3)[(started + self._passes) % _ROWS]
        own, end = self._own, time.monotonic() + _PATIENCE_S
        if worker == 0:
            row[1:] = torch.tensor(self._begin_pass())
            self._shared[3], row[0] = 1, key
        self._own = None
        while own is None and row[0] != key:
            if time.monotonic() > end:
                raise UserError(f"worker 0 of the DataLoader did not begin this pass in {_PATIENCE_S} seconds")
            time.sleep(0.001)
        return own or (int(row[1]), int(row[2]) + worker)

    def _read(self, batches: range, order: Order, rank: tuple[int, int]) -> Iterator[dict[str, Any]]:
        chosen, ahead = tee(self._choose(batches, order, rank))
        is_stored = self.source.reads_ahead
        examples = self.source.read_batches(numbers.tolist() for _, _, numbers in ahead) if is_stored else repeat(None)
        for (batch, positions, numbers), some in zip(chosen, examples, strict=False):
            values = _Batch(self._read_batch(numbers) if some is None else self._collate(some))
            values.rank = None if self._given else rank
            if self._batches.remainder == "pad":
                values[PADDING] = torch.from_numpy(positions >= len(order))
            self._next = order.epoch, batch + batches.step
            yield values

    def _choose(
        self, batches: range, order: Order, rank: tuple[int, int]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        together = max(_ORDERED // self._batches.batch_size, 1)
        for first in range(0, len(batches), together):
            some = batches[first : first + together]
            positions = [self._batches.positions(batch, *rank) for batch in some]
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


_NOTHING = np.empty(0)  # a list of any length that is missing


_LIVE: WeakSet[Dataset] = WeakSet()
os.register_at_fork(before=lambda: [*map(Dataset._prepare_worker, _LIVE)])


def _find_rank() -> tuple[int, int]:
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    found = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", *_SIZES) if name in os.environ}
    if "RANK" not in found and set(found.values()) <= {"1"}:
        return 0, 1
    try:
        return int(found["RANK"]), int(found["WORLD_SIZE"])
    except (KeyError, ValueError):
        raise UserError(
            f"the environment has {', '.join(map('='.join, found.items()))}, from which this process's rank is not"
            " known; call init_process_group before the first batch, set RANK and WORLD_SIZE, or give rank and"
            " world_size"
        ) from None
