"""What bench_images compares with: the loop everybody writes, one unshuffled file, in the cheapest form that is
fair."""

import glob
import os
import sys

import tensorflow as tf


def main(folder: str, output: str) -> None:
    paths = sorted(glob.glob(f"{folder}/*/*.jpg"))
    classes = {name: index for index, name in enumerate(sorted(os.listdir(folder)))}
    with tf.io.TFRecordWriter(output) as writer:
        for path in paths:
            image = tf.io.read_file(path).numpy()
            label, filename = path.split("/")[-2:]
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[classes[label]])),
                "filename": tf.train.Feature(bytes_list=tf.train.BytesList(value=[filename.encode()])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
