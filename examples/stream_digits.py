"""Handwritten digits as NumPy arrays, without TensorFlow: what `torch_digits.py` and `jax_digits.py` read."""

from collections.abc import Iterator

import numpy as np

import shardmill


def stream(
    directory: str, split: str, *, epoch: int | None = None, num_workers: int = 1, worker_index: int = 0
) -> Iterator[tuple[np.ndarray, int]]:
    """Images (64, 64) of float32 in [0, 1], and their digits.

    Args:
      directory: of the data set.
      split: its name.
      epoch: whose order the examples come in; None for that of the files.
      num_workers: how many share the split.
      worker_index: which one this is, from 0.
    """
    examples = shardmill.examples(
        directory,
        split,
        features=["image", "label"],
        decode_images=True,
        shuffle_buffer_size=0 if epoch is None else 500,
        seed=epoch,
        num_workers=num_workers,
        worker_index=worker_index,
    )
    for example in examples:
        yield example["image"][:, :, 0].astype(np.float32) / 255, int(example["label"])
