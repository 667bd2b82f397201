"""--worker_memory, an option beside those of Beam."""

from argparse import ArgumentTypeError
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.options.declare import ValueMistake
from shardmill.transforms.options.shards import parse_size
from shardmill.transforms.stores.process_options import process_options


class MemoryOptions(PipelineOptions):
    """--worker_memory; it travels to the workers as Beam's own options do."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--worker_memory",
            type=_size,
            default=0,
            help="of each process that does steps, such as 2GiB; else what its container has for each core",
        )


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueMistake as error:
        raise ArgumentTypeError(str(error)) from None


def asked_bytes() -> int:
    """What --worker_memory says in this process, launcher or worker; 0 where it was not given."""
    return int(process_options().view_as(MemoryOptions).worker_memory)
