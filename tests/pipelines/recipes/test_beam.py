"""Beam's options in a recipe and on a command line."""

from shardmill.pipelines.nightly.recipe import read_recipes
from shardmill.pipelines.nightly.recipe_values import beam_arguments, beam_entries


def test_there_and_back() -> None:
    words = [
        "--runner",
        "DataflowRunner",
        "--region=eu",
        "--no_use_public_ips",
        "--experiments=a",
        "--experiments",
        "b=c",
    ]

    entries = beam_entries(words)

    assert entries == {
        **{"runner": "DataflowRunner", "region": "eu", "no_use_public_ips": "true", "experiments": ["a", "b=c"]},
    }
    (node,) = read_recipes(
        b"beam:\n  runner: DataflowRunner\n  no_use_public_ips: true\n  experiments: [a, b=c]\n", "a"
    )
    assert list(beam_arguments(node.mapping()["beam"])) == [
        *("--runner=DataflowRunner", "--no_use_public_ips", "--experiments=a", "--experiments=b=c"),
    ]
