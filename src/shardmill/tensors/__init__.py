"""A split as a tf.data.Dataset of tensors; needs TensorFlow."""
