"""Train a JAX model on handwritten digits; on several hosts, each reads its own part of each batch.

python examples/write_digits.py inputs/digits
shardmill images --input inputs/digits --output datasets --name digits --splits train=0.8,test=0.2 --stratify_by label
python examples/jax_digits.py datasets/digits

JAX is not a dependency of shardmill: `pip install jax`. Neither TensorFlow nor Beam is imported here.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import shardmill

BATCH, EPOCHS, RATE, HIDDEN = 32, 15, 0.2, 64


def batches(directory: str, split: str, size: int, epoch: int | None = None) -> Iterator[tuple[Any, Any]]:
    """Images (size, 64, 64) and digits (size,) of all hosts together; the last ones that fill no batch are left out."""
    source = shardmill.source(directory, split, features=["image", "label"], decode=True)
    order = range(len(source)) if epoch is None else shardmill.Order(len(source), seed=0, epoch=epoch)
    parts = shardmill.GlobalBatches(len(source), size, remainder="drop")
    for step in parts.steps():
        positions = parts.positions(step, jax.process_index(), jax.process_count())
        examples = source.__getitems__([order[position] for position in positions])
        images = np.stack([example["image"][:, :, 0] for example in examples]).astype(np.float32) / 255
        yield jnp.asarray(images), jnp.asarray([example["label"] for example in examples])


def predict(weights: dict[str, Any], images: Any) -> Any:
    """Logits (batch, 10), from the means of 4 x 4 pixels."""
    means = images.reshape(-1, 16, 4, 16, 4).mean((2, 4)).reshape(-1, 256)
    return jax.nn.relu(means @ weights["in"] + weights["bias"]) @ weights["out"]


def loss(weights: dict[str, Any], images: Any, digits: Any) -> Any:
    """The mean cross entropy."""
    return -jnp.take_along_axis(jax.nn.log_softmax(predict(weights, images)), digits[:, None], 1).mean()


@jax.jit  # type: ignore[untyped-decorator,unused-ignore]
def step(weights: dict[str, Any], images: Any, digits: Any) -> dict[str, Any]:
    """The weights after a step of gradient descent."""
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, jax.grad(loss)(weights, images, digits))


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    first, second = jax.random.split(jax.random.key(seed))
    weights = {
        "in": jax.random.normal(first, (256, HIDDEN)) / 16,
        "bias": jnp.zeros(HIDDEN),
        "out": jax.random.normal(second, (HIDDEN, 10)) / 8,
    }
    for epoch in range(EPOCHS):
        for images, digits in batches(directory, "train", BATCH, epoch):
            weights = step(weights, images, digits)
    right = [predict(weights, images).argmax(1) == digits for images, digits in batches(directory, "test", 1)]
    return float(jnp.concatenate(right).mean())


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.seed)
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
