"""PTransforms of shardmill and the plain functions that do their work."""

if __name__ != "shardmill.transforms":
    raise ImportError(f"import shardmill.transforms instead of {__name__}")
