"""PTransforms of shardmill and their pure twins, one idea a file."""
