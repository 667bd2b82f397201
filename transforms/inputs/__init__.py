"""Find the input: list files, read manifests and annotations, and divide record files into blocks."""
