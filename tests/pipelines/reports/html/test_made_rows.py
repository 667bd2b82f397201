"""What a version was made of, and how, in words."""

from shardmill.pipelines.reports.rows import made_rows


def test_counts_and_options_are_words() -> None:
    values = {
        "records": 3_000_000,
        "in_examples": 1_000,
        "size_bytes": 43_567,
        "shard_size": 134_217_728,
        "splits": {"train": "4/5", "test": "1/5"},
        "missing": ["", "NA"],
        "drop": [],
        "fill": {},
        "key": None,
        "no_shuffle": False,
        "line_numbers": True,
        "max_reject_fraction": 0.01,
        "tokenizer": {"name": "t.json", "sha256": "43"},
        "pattern": "in/*.csv",
    }

    assert made_rows(values) == [
        ("records", "3,000,000"),
        ("records in examples", "1,000"),
        ("size", "43.6 kB"),
        ("shard_size", "134.2 MB"),
        ("splits", "train 4/5, test 1/5"),
        ("missing", '"", NA'),
        ("drop", "none"),
        ("fill", "none"),
        ("key", "none"),
        ("no_shuffle", "no"),
        ("line_numbers", "yes"),
        ("max_reject_fraction", "0.01"),
        ("tokenizer", "name t.json, sha256 43"),
        ("pattern", "in/*.csv"),
    ]
