"""How long S3 is given to recover: the attempts at each request, for every client of this process, Beam's own too."""

import os
from argparse import ArgumentTypeError
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

# In this mode botocore waits up to 0.05, 0.1, 0.2, … and at last 20 seconds before each further attempt (from 1 second
# on where the answer is SlowDown), half of that in the mean: two minutes and a half in all, and less than one once in a
# hundred thousand requests. It takes each repetition off a quota of the client's, so that no two threads may share one
# (transforms/stores/s3_clients.py; Beam makes one for each file); 24 attempts are two thirds of that.
_ATTEMPTS = 24
_MODE = "standard"
VARIABLES = ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS")  # what botocore reads them from


class S3RetryOptions(PipelineOptions):
    """--s3_attempts; it travels to the workers as Beam's own options do."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--s3_attempts",
            type=_attempts,
            default=_ATTEMPTS,
            help="at each request to S3; 24 are two minutes and a half",
        )


def _attempts(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"expected a number of attempts, 1 or more, not {text!r}")
    return int(text)


def set_retries(options: PipelineOptions) -> None:
    """Let the clients of S3 that are made from now on repeat requests as `options` say, unless AWS's own variables
    do. Before each request: what a view of options costs is a tenth of one."""
    if all(name in os.environ for name in VARIABLES):
        return
    os.environ.setdefault("AWS_RETRY_MODE", _MODE)
    os.environ.setdefault("AWS_MAX_ATTEMPTS", str(options.view_as(S3RetryOptions).s3_attempts))
