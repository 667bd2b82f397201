"""The parser of all options of Beam, which has no public way to it: what it does not know, `PipelineOptions` only warns
of."""

import argparse
from functools import cache

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

from transforms.stores import patience, s3_retries  # noqa: F401  # which add options to those of Beam
from transforms.workers import memory_options  # noqa: F401  # likewise


def beam_parser() -> argparse.ArgumentParser:
    """A parser that knows every option of Beam, and those that were added to them."""
    return _parser(tuple(PipelineOptions.__subclasses__()))


@cache
def _parser(views: tuple[type[PipelineOptions], ...]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _BeamArgumentParser(allow_abbrev=False)
    for view in views:
        view._add_argparse_args(parser)
    return parser
