"""tf.train.Examples, thousands at a time: encoded, decoded, framed."""
