"""PTransforms for any Beam pipeline.

* `ReadDataset`: a split of a data set as a PCollection.
* `WriteDataset`: a PCollection as a version of a data set, described by a `WrittenVersion`.
"""

from shardmill.pipelines.jobs.write_dataset import WriteDataset, WrittenVersion
from shardmill.transforms.shards.reading import ReadDataset

__all__ = ["ReadDataset", "WriteDataset", "WrittenVersion"]
