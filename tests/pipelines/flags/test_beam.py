"""The parser of Beam's options: where Beam changes it, these fail first."""

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.pipelines.config.beam_flags import beam_parser, cluster_flags


def test_it_knows_what_beam_takes_and_gives_back_the_rest() -> None:
    flags = ["--runner=FlinkRunner", "--direct_num_workers=2", "--region", "here", "--experiments=a", "--experiments=b"]
    found, rest = beam_parser().parse_known_args([*flags, "--s3_attempts=3", "--no_such_flag", "word"])

    assert rest == ["--no_such_flag", "word"]
    assert (found.runner, found.direct_num_workers, found.region, found.experiments) == (
        "FlinkRunner",
        2,
        "here",
        ["a", "b"],
    )
    assert found.s3_attempts == 3


def test_it_takes_every_name_that_beams_own_parser_takes() -> None:
    known = vars(beam_parser().parse_known_args([])[0])

    assert set(PipelineOptions([]).get_all_options()) <= set(known)


def test_what_only_clusters_look_at() -> None:
    flags = ["--parallelism", "4", "--direct_num_workers=2", "--num_workers=3", "--max_cache_memory_usage_mb=9"]
    assert cluster_flags(flags) == ["--parallelism", "--num_workers"]
