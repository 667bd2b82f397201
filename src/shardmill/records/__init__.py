"""Records as bytes: tf.train.Examples, TFRecord framing, and checksums and copies of many records in one call."""
