"""Read datasets as NumPy values or TensorFlow tensors."""
