"""Files that describe a dataset: manifest, schema, TFDS metadata and build records."""
