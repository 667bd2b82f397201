"""The options that a process reaches object stores with, by Beam's public ways alone."""

from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, S3Options

from shardmill.pipelines.jobs import launch
from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.clients import set_options


@pytest.fixture(autouse=True)
def _no_options_after() -> Iterator[None]:
    yield
    set_options(None)


def test_they_are_those_that_beams_file_systems_get() -> None:
    options = PipelineOptions(["--s3_region_name=here"])
    set_options(options)

    assert process_options() is options


def test_without_any_they_are_beams_defaults_and_always_the_same() -> None:
    FileSystems.set_options(None)

    assert process_options().view_as(S3Options).s3_region_name is None
    assert process_options() is process_options()


def test_there_are_no_files_of_that_scheme() -> None:
    with pytest.raises(OSError, match="holds no files"):
        FileSystems.exists("shardmill-options://a")


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_workers_have_those_of_the_command(tmp_path: Path, mode: str) -> None:
    def write_region(folder: str) -> None:
        Path(folder, "region").write_text(str(process_options().view_as(S3Options).s3_region_name))

    def build(pipeline: beam.Pipeline, _: str | None) -> None:
        _ = pipeline | beam.Create([str(tmp_path)]) | beam.Map(write_region)

    launch.run_pipeline(build, PipelineOptions(["--s3_region_name=there", f"--direct_running_mode={mode}"]), "test")

    assert (tmp_path / "region").read_text() == "there"
