"""What a data set says of itself in files of TFDS, tensorflow-metadata and its own, sealed by checksums."""
