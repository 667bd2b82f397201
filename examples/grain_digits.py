"""Train a linear model on handwritten digits with Grain; a run that was stopped continues with the next batch.

python examples/write_digits.py inputs/digits
shardmill images --input inputs/digits --output datasets --name digits --splits train=0.8,test=0.2 --stratify_by label
python examples/grain_digits.py datasets/digits --steps 100
python examples/grain_digits.py datasets/digits

Grain is not a dependency of shardmill: `pip install grain`. Neither TensorFlow nor Beam is imported here.
"""

import argparse
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grain
import numpy as np

import shardmill

BATCH, EPOCHS, WORKERS, RATE = 32, 3, 2, 0.5


def read(directory: str, split: str) -> shardmill.Source:
    """A split with random access to its images and digits."""
    return shardmill.source(directory, split, features=["image", "label"], decode=True)


def pixels(batch: dict[str, Any]) -> np.ndarray:
    """Means of 4 x 4 pixels, and a one: (batch, 257)."""
    means = batch["image"][..., 0].reshape(-1, 16, 4, 16, 4).mean((2, 4)).reshape(-1, 256) / 255
    return np.c_[means, np.ones(len(means))]


def train(directory: str, checkpoint: Path, steps: int | None) -> np.ndarray:
    """The weights (257, 10) after three epochs, or after some steps; both are saved with the place in the data."""
    source = read(directory, "train")
    sampler = grain.samplers.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=EPOCHS)
    batching = grain.transforms.Batch(BATCH, drop_remainder=True)
    batches = iter(grain.DataLoader(data_source=source, sampler=sampler, operations=[batching], worker_count=WORKERS))
    weights = np.zeros((257, 10))
    if checkpoint.exists():
        weights, state = pickle.loads(checkpoint.read_bytes())
        batches.set_state(state)
    for step, batch in enumerate(batches, 1):
        inputs, digits = pixels(batch), np.eye(10)[batch["label"]]
        scores = np.exp(inputs @ weights)
        weights -= RATE / BATCH * inputs.T @ (scores / scores.sum(1, keepdims=True) - digits)
        if step == steps:
            break
    checkpoint.write_bytes(pickle.dumps((weights, batches.get_state())))
    return weights


def evaluate(directory: str, weights: np.ndarray) -> float:
    """The accuracy on the test split."""
    batches = grain.MapDataset.source(read(directory, "test")).batch(100)
    right = [(pixels(batch) @ weights).argmax(1) == batch["label"] for batch in batches]
    return float(np.concatenate(right).mean())


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set")
    parser.add_argument("--checkpoint", type=Path, default=Path("grain_digits.pickle"))
    parser.add_argument("--steps", type=int, help="stop after so many")
    options = parser.parse_args(arguments)
    accuracy = evaluate(options.directory, train(options.directory, options.checkpoint, options.steps))
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
