"""Options whose views are made once are Beam's options in all else."""

import argparse
import copy
import pickle
from pathlib import Path

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, StandardOptions, TypeOptions

from shardmill.pipelines.config.beam_flags import CachedOptions
from shardmill.pipelines.config.flags import beam_options
from shardmill.pipelines.jobs import launch


def test_a_view_is_made_once_and_shares_its_values() -> None:
    given = PipelineOptions(["--runner", "DirectRunner"])
    options = given.view_as(CachedOptions)
    view = options.view_as(StandardOptions)
    assert options.view_as(StandardOptions) is view
    assert options.view_as(CachedOptions) is options
    given.view_as(StandardOptions).runner = "PrismRunner"
    assert view.runner == "PrismRunner"
    view.streaming = True
    assert given.view_as(StandardOptions).streaming
    assert options.get_all_options() == given.get_all_options()


def test_a_copy_has_values_of_its_own_and_no_credential() -> None:
    options = PipelineOptions([], impersonate_service_account="somebody").view_as(CachedOptions)
    assert options.view_as(GoogleCloudOptions).impersonate_service_account == "somebody"
    assert b"somebody" not in pickle.dumps(options)
    made = copy.deepcopy(options)
    made.view_as(GoogleCloudOptions).project = "theirs"
    made.view_as(StandardOptions).streaming = True
    assert (made.get_all_options()["project"], made.get_all_options()["streaming"]) == ("theirs", True)
    assert not options.view_as(StandardOptions).streaming


def test_a_command_line_has_them() -> None:
    options = beam_options([], argparse.ArgumentParser())
    assert options.view_as(TypeOptions) is options.view_as(TypeOptions)


def test_a_pipeline_is_built_with_them_whatever_is_given(tmp_path: Path) -> None:
    options = launch._make_pipeline(PipelineOptions([]), str(tmp_path)).options
    assert options.view_as(TypeOptions) is options.view_as(TypeOptions)
