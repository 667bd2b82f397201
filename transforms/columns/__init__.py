"""Read, convert and infer typed Arrow columns, and encode them as tf.train.Example records."""
