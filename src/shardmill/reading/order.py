"""Shuffled orders with random access, and their division into global batches, ranks and workers."""

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardmill.errors import NotAnIntegerError, UserError

_MOST = 1 << 63  # examples
_MASK = (1 << 64) - 1  # unsigned 64-bit arithmetic, of Python's integers as of NumPy's
_GOLDEN = 0x9E3779B97F4A7C15
_FEW = 1024  # fewer values need more rounds: tests compare the permutations of 3 to 7 values with even chances
_ROUNDS, _ROUNDS_OF_FEW = 8, 24
_CHUNK = 1 << 14  # positions looked up at a time, so that they stay in the processor's cache


def _mix(value: Any) -> Any:
    """Return a hash of unsigned 64-bit integers: the finalizer of SplitMix64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def _permute(values: Any, n: int, key: Any) -> Any:
    """Permute the numbers below `n`, given as an integer or as an array of uint64.

    This is a Feistel network over pairs of numbers, whose products are just above `n`.
    """
    high = math.isqrt(max(n - 1, 0)) + 1
    low = 2 * -(-n // (2 * high))  # even, so that odd permutations occur, too

    def permute_pairs(values: Any, key: Any) -> Any:
        left, right = values // low, values % low
        for number in range(_ROUNDS_OF_FEW if n < _FEW else _ROUNDS):
            round_key = key + (number * _GOLDEN & _MASK) & _MASK
            if number % 2:
                left = (left + ((_mix(right ^ round_key) >> 32) * high >> 32)) % high
            else:
                right = (right + ((_mix(left ^ round_key) >> 32) * low >> 32)) % low
        return left * low + right

    return _walk(permute_pairs, values, n, key)


def _walk(step: Callable[[Any, Any], Any], values: Any, n: int, key: Any) -> Any:
    """Apply a permutation of more than `n` numbers until each result is below `n`: "cycle walking"."""
    values = step(values, key)
    if isinstance(values, int):
        while values >= n:
            values = step(values, key)
        return values
    while (rows := np.flatnonzero(values >= n)).size:
        values[rows] = step(values[rows], key[rows] if isinstance(key, np.ndarray) else key)
    return values


@dataclass(frozen=True, slots=True)
class Order:
    """A shuffled order of `n` examples that is computed, not stored: position in the epoch to number of the example.

    ```python
    order = shardmill.Order(1_281_167, seed=0, epoch=3)
    order[5]  # the sixth example of the epoch
    order[1000:1256], order[[7, 2]]  # arrays of int64
    ```

    It takes the same few bytes for any `n`. The same arguments give the same order on every machine.

    Attributes:
        n: number of examples, below 2**63.
        seed: seed of the order, from 0 to 2**64 - 1.
        epoch: number of the epoch, from 0 to 2**64 - 1; each has another order.
        block: number of neighbouring examples that are read together. 1 is a full shuffle. With more, blocks are
            shuffled, and then the examples of every `window` blocks among each other. A reader then needs only few
            parts of the shards at a time.
        window: number of blocks whose examples are shuffled together; without effect if `block` is 1.

    Raises:
        UserError: if a number is out of range.
    """

    n: int
    seed: int
    epoch: int = 0
    block: int = 1
    window: int = 64

    def __post_init__(self) -> None:
        seeds, blocks = dict.fromkeys(("seed", "epoch"), (0, _MASK)), dict.fromkeys(("block", "window"), (1, _MOST - 1))
        for name, (least, most) in {"n": (0, _MOST - 1), **seeds, **blocks}.items():
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        for start in range(0, self.n, _CHUNK):
            yield from self[start : start + _CHUNK].tolist()

    @overload
    def __getitem__(self, positions: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, positions: slice | ArrayLike) -> NDArray[np.int64]: ...
    def __getitem__(self, positions: Any) -> int | NDArray[np.int64]:
        """Return the example at a position, or the examples at a slice or array of positions.

        Negative positions count from the end. Raise an IndexError if a position is out of range.
        """
        if isinstance(positions, slice):
            return self._find_all(np.arange(*positions.indices(self.n)))
        try:
            position = operator.index(positions)
        except TypeError:
            return self._find_array(np.asarray(positions))
        self._check_positions(position, position)
        if self.block == 1:
            return int(_permute(position % self.n, self.n, self._key))
        return int(self._find_all(np.array([position % self.n]))[0])

    def _find_array(self, places: NDArray[Any]) -> NDArray[np.int64]:
        if not places.size:
            return np.empty(places.shape, np.int64)
        if places.dtype.kind not in "iu":
            raise TypeError(f"positions are integers or slices; these are {places.dtype}")
        self._check_positions(int(places.min()), int(places.max()))
        return self._find_all(np.where(places < 0, places + self.n, places).ravel()).reshape(places.shape)

    def _check_positions(self, least: int, most: int) -> None:
        if least < -self.n or most >= self.n:
            raise IndexError(f"position {least if least < -self.n else most} in an order of {self.n} examples")

    @property
    def _key(self) -> int:
        return int(_mix(_mix(self.seed + _GOLDEN & _MASK) + self.epoch & _MASK))

    def _find_all(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.empty(len(positions), np.int64)
        find = self._find_in_blocks if self.block > 1 else lambda some: _permute(some, self.n, self._key)
        for start in range(0, len(positions), _CHUNK):
            found[start : start + _CHUNK] = find(positions[start : start + _CHUNK].astype(np.uint64))
        return found

    def _find_in_blocks(self, positions: NDArray[np.uint64]) -> NDArray[np.uint64]:
        block, size = self.block, min(self.block * self.window, self.n)
        last = self.n // size - 1  # the number of the last window, which also holds the rest
        is_last = positions >= last * size
        numbers = positions[~is_last] // size
        places = np.empty_like(positions)
        inner = _permute(positions[~is_last] - numbers * size, size, _mix(numbers + self._key))
        places[~is_last] = inner + numbers * size
        rest = _permute(positions[is_last] - last * size, self.n - last * size, _mix(last + self._key & _MASK))
        places[is_last] = rest + last * size
        # The last block may be shorter: the walk replaces what it lacks by neighbours from another block
        blocks = -(-self.n // block)
        found: NDArray[np.uint64] = _walk(
            lambda places, key: _permute(places // block, blocks, key) * block + places % block,
            places,
            self.n,
            _mix(self._key ^ _MASK),
        )
        return found


@dataclass(frozen=True, slots=True)
class GlobalBatches:
    """The division of an order into global batches, of a batch among ranks, and of batches among worker processes.

    Global batch k has the same positions for any number of ranks and workers. Each rank has a part of each batch, and
    each of its workers prepares every `workers`-th batch, in the order in which PyTorch's DataLoader takes them.

    ```python
    batches = shardmill.GlobalBatches(len(order), 256, remainder="drop")
    for step in batches.steps(first=step):
        order[batches.positions(step, rank, world_size)]
    ```

    Attributes:
        n: number of examples in the order.
        batch_size: number of examples in a batch of all ranks together.
        remainder: "drop" leaves out the last batch if it would be smaller. "pad" fills it with positions from `n` on:
            `positions % n` are examples from the start of the order, and `positions >= n` marks them.

    Raises:
        UserError: if a value is out of range.
    """

    n: int
    batch_size: int
    remainder: Literal["drop", "pad"]

    def __post_init__(self) -> None:
        for name, least in (("n", 0), ("batch_size", 1)):
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, _MOST - 1))
        if self.remainder not in ("drop", "pad"):
            raise UserError(f"remainder is {self.remainder!r}; expected 'drop' or 'pad'")

    def __len__(self) -> int:
        """Return the number of batches, which is also the number of steps of each rank."""
        return self.n // self.batch_size if self.remainder == "drop" else -(-self.n // self.batch_size)

    def steps(self, worker: int = 0, workers: int = 1, first: int = 0) -> range:
        """Return the steps that a worker process prepares; `first` is the step to continue with."""
        check_range("workers", workers, 1, _MOST)
        check_range("worker", worker, 0, workers - 1)
        check_range("first", first, 0, len(self))
        return range(first + worker, len(self), workers)

    def positions(self, step: int, rank: int = 0, world_size: int = 1) -> NDArray[np.int64]:
        """Return the positions of a rank's part of batch `step`; parts differ by one position at most.

        Raise an IndexError if there is no such step.
        """
        check_range("world_size", world_size, 1, _MOST)
        check_range("rank", rank, 0, world_size - 1)
        if world_size > self.batch_size:
            raise UserError(
                f"world_size is {world_size}, more ranks than the {self.batch_size} examples of a global batch; give a"
                " larger batch_size"
            )
        step = check_range("step", step, -_MOST, _MOST)
        if not 0 <= step < len(self):
            raise IndexError(f"step {step} of {len(self)} batches")
        start = step * self.batch_size
        return np.arange(
            start + self.batch_size * rank // world_size, start + self.batch_size * (rank + 1) // world_size
        )


def check_range(name: str, value: Any, least: int, most: int) -> int:
    """Return an integer between two others; raise a UserError if it is none, or out of range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise NotAnIntegerError(f"{name} is {value!r:.99}; expected an integer") from None
    if not least <= number <= most:
        raise UserError(f"{name} is {number}; expected {least} to {most}")
    return number
