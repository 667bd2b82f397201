"""A published data set, opened, checked and read as NumPy values, without TensorFlow."""
