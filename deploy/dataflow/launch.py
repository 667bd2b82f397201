"""What a Flex Template's launcher runs, in the image that the workers run in too: from parameters to a job, which is
written where the launcher says."""

import sys

from shardmill.errors import UserError
from shardmill.pipelines.cli import main
from shardmill.pipelines.commands.convert import launch_arguments

if __name__ == "__main__":
    try:
        words = launch_arguments(sys.argv[1:])
    except UserError as error:
        sys.exit(f"shardmill: error: {error}")
    sys.exit(main([*words, "--log_format=json"]))
