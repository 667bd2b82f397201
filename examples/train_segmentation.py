"""Train a small U-Net that says of each pixel whether it is of a disc, a square, a triangle or of none.

`shardmill.load` gives images with their masks, which are mirrored together.

shardmill sample shapes inputs
shardmill images --coco inputs/shapes/instances.json --masks_of coco --output datasets --name drawn \
  --splits train=0.8,test=0.2
python examples/train_segmentation.py datasets/drawn/1.0.0
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import shardmill

SIZE, CLASSES, BATCH, EPOCHS = (64, 64), 4, 16, 9


def mirrored(features: dict[str, Any], seed: Any) -> dict[str, Any]:
    """An image and its mask, every second time the other way round."""
    turns = tf.random.stateless_uniform((), seed) < 0.5
    return {name: tf.where(turns, tf.reverse(pixels, [1]), pixels) for name, pixels in features.items()}


def u_net() -> Any:
    """Down to a quarter of the size and up again, each step beside what it was on the way down."""
    layers = tf.keras.layers

    def convolved(tensor: Any, filters: int) -> Any:
        return layers.ReLU()(layers.BatchNormalization(momentum=0.9)(layers.Conv2D(filters, 3, padding="same")(tensor)))

    image = tf.keras.Input((*SIZE, 3))
    whole = convolved(image, 8)
    half = convolved(layers.MaxPooling2D()(whole), 16)
    quarter = convolved(layers.MaxPooling2D()(half), 32)
    up = convolved(layers.Concatenate()([layers.UpSampling2D()(quarter), half]), 16)
    up = convolved(layers.Concatenate()([layers.UpSampling2D()(up), whole]), 8)
    return tf.keras.Model(image, layers.Conv2D(CLASSES, 1)(up))


def mean_iou(masks: Any, found: Any) -> float:
    """For each class the pixels that are of it in both, as a share of those that are in either; the mean of that."""
    shares = []
    for index in range(CLASSES):
        there, said = masks == index, found == index
        shares.append((there & said).sum() / (there | said).sum())
    return float(np.mean(shares))


def train(directory: str, seed: int = 0) -> tuple[float, float]:
    """The mean IoU on the test split, of the model and of who says that nothing is anywhere."""
    tf.keras.utils.set_random_seed(seed)
    wanted: dict[str, Any] = {"batch_size": BATCH, "features": ["image"], "label": "mask"}
    examples = shardmill.load(directory, "train", augment=mirrored, seed=seed, **wanted)
    model = u_net()
    model.compile(tf.keras.optimizers.Adam(0.01), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(examples, epochs=EPOCHS, verbose=0)
    pairs = [(images, masks.numpy()[..., 0]) for images, masks in shardmill.load(directory, "test", **wanted)]
    masks = np.concatenate([mask for _, mask in pairs])
    found = np.concatenate([model(images, training=False).numpy().argmax(-1) for images, _ in pairs])
    return mean_iou(masks, found), mean_iou(masks, np.zeros_like(masks))


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the mean IoU, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set's version")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found, nothing = train(options.directory, options.seed)
    print(f"mean IoU on the test split: {found:.3f}; of who says that nothing is anywhere: {nothing:.3f}")
    return found


if __name__ == "__main__":
    main()
