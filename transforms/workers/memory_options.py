"""The flag --worker_memory, one of Beam's options so that workers receive it."""

from argparse import ArgumentTypeError
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.flag_values import OptionValueError
from shardmill.transforms.options.job_options import parse_size
from shardmill.transforms.stores.beam_filesystems import process_options


class MemoryOptions(PipelineOptions):
    """The option --worker_memory."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--worker_memory",
            type=_parse_memory,
            default=0,
            help="of each process that does steps, such as 2GiB; else what its container has for each core",
        )


def _parse_memory(text: str) -> int:
    try:
        return parse_size(text)
    except OptionValueError as error:
        raise ArgumentTypeError(str(error)) from None


def worker_memory_bytes() -> int:
    """Return the value of --worker_memory in this process, launcher or worker; 0 if it was not given."""
    return int(process_options().view_as(MemoryOptions).worker_memory)
