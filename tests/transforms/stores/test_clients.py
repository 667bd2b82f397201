"""Runs that overlap in one process reach stores by the options of those still under way."""

import os
from contextlib import ExitStack

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.clients import using_options
from shardmill.transforms.stores.patience import VARIABLES


def test_the_run_that_ends_first_leaves_the_other_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def variables() -> list[str | None]:
        return [os.environ.get(name) for name in VARIABLES]

    before, variables_before = process_options(), variables()
    one, other = PipelineOptions(["--s3_attempts=3"]), PipelineOptions(["--s3_attempts=5"])
    first, second = ExitStack(), ExitStack()
    first.enter_context(using_options(one))
    second.enter_context(using_options(other))
    assert variables() == ["standard", "5"]

    first.close()
    assert process_options() is other
    assert variables() == ["standard", "5"]

    second.close()
    assert process_options() is before
    assert variables() == variables_before
