"""PTransforms for any Beam pipeline.

* `ReadDataset`: a split of a data set as a PCollection.
"""

from shardmill.transforms.shards.reading import ReadDataset

__all__ = ["ReadDataset"]
