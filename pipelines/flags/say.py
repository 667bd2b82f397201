"""What a command says while it runs and at its end: flags that all commands have."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shardmill.pipelines.flags.options import Parser
from shardmill.pipelines.flags.parser import add_flags
from shardmill.transforms.options.declare import Options, flag, options_of


@dataclass(frozen=True, kw_only=True)
class SayOptions(Options):
    """How a command speaks."""

    title: ClassVar[str] = "what is said"

    log_format: str = flag(
        "text",
        "of what is said on stderr; json is a line for each, as the logs of clouds take them, and no progress bar",
        choices=("text", "json"),
        shapes=False,
    )
    quiet: bool = flag(False, "only warnings and errors", shapes=False)


@dataclass(frozen=True, kw_only=True)
class BuildSayOptions(SayOptions):
    """How a command speaks that builds a version."""

    json: bool = flag(False, "the record of the build on stdout, one line, and nothing else there", shapes=False)


def add_say_flags(parser: Parser) -> None:
    """Add the flags of SayOptions to the parser of a command that declares no other options."""
    add_flags(parser, options_of(SayOptions))


def say_options(args: argparse.Namespace) -> SayOptions:
    """What such a command was told; raises UserError."""
    return SayOptions(**{name: value for name, value in vars(args).items() if name in ("log_format", "quiet")})


def asked(arguments: Sequence[str]) -> SayOptions:
    """How the command of `arguments` is to speak, known before it is parsed: so it speaks of mistakes in them, too."""
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    scan.add_argument("--log_format", default="text", choices=("text", "json"))
    scan.add_argument("--quiet", action="store_true")
    try:
        found, _ = scan.parse_known_args(list(arguments))
    except (argparse.ArgumentError, SystemExit):  # of which the command's own parser will speak
        return SayOptions()
    return SayOptions(log_format=found.log_format, quiet=found.quiet)
