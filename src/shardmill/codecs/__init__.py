"""How the records of a shard become the bytes of its file, and back: a module a file format."""
