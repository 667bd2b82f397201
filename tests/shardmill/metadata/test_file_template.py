"""Templates of shards' names: as TFDS fills and parses them, and those that can be none."""

import pytest

from shardmill.data.codecs import CODECS
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from tests.support.later import Later

tfds_naming = Later("tensorflow_datasets.core.naming")

GOOD = [
    file_names.DEFAULT_TEMPLATE,
    "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
    "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}",
    "{DATASET}_{SPLIT}_{SHARD_INDEX}_{NUM_SHARDS}.{FILEFORMAT}",
    "data.{SPLIT}.{SHARD_X_OF_Y}.records",
    "{SHARD_X_OF_Y}={SPLIT}",
]


@pytest.mark.parametrize("template", GOOD)
def test_names_are_those_of_tfds(template: str) -> None:
    theirs = tfds_naming.ShardedFileTemplate("/x", template, "flowers", "train_a", "tfrecord")

    assert file_names.template_problem(template) is None
    for shard, count in ((0, 1), (7, 12), (99_998, 99_999)):
        name = str(ShardName("flowers", "train_a", shard, count, template=template))
        assert name == theirs.relative_filepath(shard_index=shard, num_shards=count)
        assert file_names.is_shard(name, template, "flowers", "train_a")
        assert file_names.is_dataset_file(name, "flowers", [template])
        assert file_names.is_dataset_file(name, "flowers") is (template == file_names.DEFAULT_TEMPLATE)
        assert not file_names.is_shard(name, template, "flowers", "test")
        assert not file_names.is_shard(f"{name}.bak", template)
        assert file_names.is_shard(f"{name}.gz", template)
    assert str(ShardName("f", "s", 0, 1, CODECS["gzip"], template)).endswith(".gz")


def test_the_default_is_that_of_tfds() -> None:
    assert tfds_naming.DEFAULT_FILENAME_TEMPLATE == file_names.DEFAULT_TEMPLATE


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{SPLIT}/{SHARD_X_OF_Y}", "names a folder"),
        ("{SPLIT}", "lacks {SHARD_X_OF_Y} or {SHARD_INDEX}"),
        ("{SPLIT}-{NUM_SHARDS}", "lacks {SHARD_X_OF_Y} or {SHARD_INDEX}"),
        ("{DATASET}-{SHARD_X_OF_Y}", "lacks {SPLIT}"),
        ("", "lacks {SPLIT}"),
        ("{SPLIT}-{SHARD}", "has {SHARD}; TFDS knows {DATASET}, {SPLIT}, {FILEFORMAT}, "),
        ("{split}-{SHARD_X_OF_Y}", "has {split}; TFDS knows"),
        ("{SPLIT:>9}-{SHARD_X_OF_Y}", "has {SPLIT}; TFDS knows"),
        ("{SPLIT!r}-{SHARD_X_OF_Y}", "has {SPLIT}; TFDS knows"),
        ("{}-{SPLIT}-{SHARD_X_OF_Y}", "has {}; TFDS knows"),
        ("{SPLIT}-{SPLIT}-{SHARD_X_OF_Y}", "has {SPLIT} twice"),
        ("{SPLIT}-{SHARD_INDEX}-{SHARD_X_OF_Y}", "the number of a shard twice"),
        ("{SPLIT-{SHARD_X_OF_Y}", "is no template"),
        ("{SPLIT}-{SHARD_X_OF_Y}}", "is no template"),
        ("{SPLIT} {SHARD_X_OF_Y}", "other characters"),
        ("{SPLIT}-{{x}}-{SHARD_X_OF_Y}", "other characters"),
        ("{SPLIT}*{SHARD_X_OF_Y}", "other characters"),
        ("_{SPLIT}-{SHARD_X_OF_Y}", "begins or ends as files of another kind"),
        (".{SPLIT}-{SHARD_X_OF_Y}", "begins or ends"),
        ("beam-temp-{SPLIT}-{SHARD_X_OF_Y}", "begins or ends"),
        ("{SPLIT}-{SHARD_X_OF_Y}.tmp", "begins or ends"),
        ("{SPLIT}-{SHARD_X_OF_Y}.json", "begins or ends"),
    ],
)
def test_what_is_no_template(template: str, words: str) -> None:
    assert words in (file_names.template_problem(template) or "")
