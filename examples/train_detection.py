"""Train a small detector on pictures of shapes, which COCO's annotations say, with `shardmill.load`: each cell of
a grid says whether the centre of a shape lies in it, of which, and the box around that.

shardmill sample shapes inputs
shardmill images --coco inputs/shapes/instances.json --output datasets --name shapes --splits train=0.8,test=0.2
python examples/train_detection.py datasets/shapes/1.0.0
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import shardmill

SIZE, GRID, CLASSES, BATCH, EPOCHS = 64, 8, 3, 16, 16
FEATURES = ["image", "objects/bbox", "objects/label"]


def to_grid(examples: dict[str, Any]) -> tuple[Any, Any]:
    """A batch as the model takes it: images, and for each cell its class, one-hot, and a box [y, x, height, width]; y
    and x are those of the centre, from 0 to 1 of the cell."""
    boxes, labels = examples["objects/bbox"], examples["objects/label"]
    places = tf.where(labels >= 0)  # a batch is filled up to the most objects of an image, with labels of -1
    boxes, labels = tf.gather_nd(boxes, places), tf.gather_nd(labels, places)
    centres, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2 * GRID, boxes[:, 2:] - boxes[:, :2]
    cells = tf.minimum(tf.cast(centres, tf.int64), GRID - 1)
    values = tf.concat([tf.one_hot(labels, CLASSES), centres - tf.cast(cells, tf.float32), sizes], 1)
    shape = (tf.shape(examples["image"], tf.int64)[0], GRID, GRID, CLASSES + 4)
    return examples["image"], tf.tensor_scatter_nd_max(tf.zeros(shape), tf.concat([places[:, :1], cells], 1), values)


def loss(grid: Any, found: Any) -> Any:
    """That of the classes in all cells, and of the boxes where there are some."""
    there = tf.reduce_max(grid[..., :CLASSES], -1, keepdims=True)
    of_classes = tf.keras.losses.binary_focal_crossentropy(grid[..., :CLASSES], found[..., :CLASSES], gamma=2.0)
    of_boxes = tf.reduce_sum(tf.abs(grid[..., CLASSES:] - found[..., CLASSES:]) * there, -1)
    return tf.reduce_sum(10 * of_classes + of_boxes, (1, 2))


def detections(found: Any) -> list[tuple[int, Any]]:
    """The (class, [ymin, xmin, ymax, xmax]) of each cell of a grid that says there is one."""
    objects = []
    for row, column in np.argwhere(found[..., :CLASSES].max(-1) > 0.5):
        y, x, height, width = found[row, column, CLASSES:]
        centre, half = np.array([row + y, column + x]) / GRID, np.array([height, width]) / 2
        objects.append((int(found[row, column, :CLASSES].argmax()), np.concatenate([centre - half, centre + half])))
    return objects


def overlap(one: Any, other: Any) -> float:
    """What two boxes have in common, as a share of both together."""
    sides = np.maximum(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0)
    areas = [np.prod(box[2:] - box[:2]) for box in (one, other)]
    return float(np.prod(sides) / (sum(areas) - np.prod(sides)))


def score(model: Any, directory: str) -> float:
    """The share of shapes in the test split that are found, by half of their box at least, among all that are there or
    are said to be: 1 where every shape is found and nothing else."""
    right = wrong = there = 0
    for batch in shardmill.load(directory, "test", BATCH, features=FEATURES, pad=True):
        grids = model(batch["image"], training=False).numpy()
        for grid, boxes, labels in zip(
            grids, batch["objects/bbox"].numpy(), batch["objects/label"].numpy(), strict=True
        ):
            left = [(label, box) for label, box in zip(labels.tolist(), boxes, strict=True) if label >= 0]
            there += len(left)
            for label, box in detections(grid):
                match = next(
                    (index for index, (same, real) in enumerate(left) if same == label and overlap(box, real) > 0.5),
                    None,
                )
                if match is None:
                    wrong += 1
                else:
                    right += 1
                    del left[match]
    return right / (there + wrong)


def train(directory: str, seed: int = 0) -> float:
    """The score on the test split."""
    tf.keras.utils.set_random_seed(seed)
    examples = shardmill.load(directory, "train", BATCH, features=FEATURES, pad=True, seed=seed, cache=True)
    layers = [tf.keras.Input((SIZE, SIZE, 3))]
    for filters in (16, 32, 64):
        layers += [tf.keras.layers.Conv2D(filters, 3, 2, "same"), tf.keras.layers.BatchNormalization()]
        layers += [tf.keras.layers.ReLU()]
    layers += [tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu")]
    layers += [tf.keras.layers.Conv2D(CLASSES + 4, 1, activation="sigmoid")]
    model = tf.keras.Sequential(layers)
    model.compile(tf.keras.optimizers.Adam(0.006), loss)
    model.fit(examples.map(to_grid, tf.data.AUTOTUNE), epochs=EPOCHS, verbose=0)
    return score(model, directory)


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the score, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set's version")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found = train(options.directory, options.seed)
    print(f"shapes of the test split that are found, of all that are there or said to be: {found:.3f}")
    return found


if __name__ == "__main__":
    main()
