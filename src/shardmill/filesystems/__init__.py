"""What readers ask of a file system: the local one, and TensorFlow's."""
