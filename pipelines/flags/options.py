"""The flags that every job has: parsing, with one sentence for each mistake."""

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from shardmill.errors import UserError

# What else than a second time may be meant.
_TWICE = {
    "--input": ", a folder that holds everything or a glob such as 'data/*/*'",
    "--splits": ", as in --splits train=0.8,test=0.2",
    "--num_shards": ", as in --num_shards train=16,test=2",
    "--drop": ", as in --drop a,b",
    "--only": ", as in --only a,b",
}
OF_SAYING = ("--json", "--log_format", "--quiet")  # which nearly all commands have, and few mean
_FAR = 0.15  # how much more alike one of these must be than any other flag
_NEAR = 0.8  # how like another word a misspelt one is, by difflib's measure


class _StoreOnce(argparse._StoreAction):
    """A flag with one value, given once: a second one would take the place of the first without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, flag: str | None = None
    ) -> None:
        """Store the value."""
        if flag is not None and isinstance(parser, Parser):
            if flag in parser.given:
                raise UserError(f"{flag} is given twice; give it once{_TWICE.get(flag, '')}")
            parser.given.add(flag)
        super().__call__(parser, namespace, values, flag)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose mistakes are UserErrors; no abbreviations, since Beam's flags share the line.

    Attributes:
      given: the flags with one value that the line being parsed has so far.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self.given: set[str] = set()
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse does; where a required flag is missing, a misspelt one is named first, for it may be the same."""
        self.given.clear()
        required = [action for action in self._actions if action.required]
        for action in required:
            action.required = False
        try:
            found, rest = super().parse_known_args(args, namespace)
        finally:
            for action in required:
                action.required = True
        missing = [action for action in required if getattr(found, action.dest, None) is None]
        if missing:
            check_known(rest, self)
            names = ", ".join("/".join(action.option_strings) or action.dest for action in missing)
            self.error(f"the following arguments are required: {names}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Raise `message` as a UserError."""
        flag = re.fullmatch(r"argument (--\w+): expected one argument", message)
        raise UserError(f"{message}; write one that begins with '-' as {flag[1]}=VALUE" if flag else message)


EPILOG = (
    "Every option of Apache Beam is passed through: --runner, --direct_num_workers, --region, … "
    "Exit status: 0 done; 1 the job failed, and nothing was published unless it says so; "
    "2 a mistake in a flag or the input, nothing was written; "
    "130 interrupted, 143 terminated, both cleaned up."
)


def beam_options(rest: Sequence[str], own: argparse.ArgumentParser) -> Any:
    """Beam's PipelineOptions from the flags that are not ours.

    Raises:
      UserError: a flag that neither we nor Beam know, with the nearest that one of us does; Beam only warns.
    """
    from apache_beam.options.pipeline_options import StandardOptions

    from shardmill.pipelines.flags.option_views import RememberingOptions

    options = RememberingOptions([*rest, *check_known(rest, own)])
    if options.get_all_options(retain_unknown_options=True)["labels"] and not options.view_as(StandardOptions).runner:
        near = difflib.get_close_matches("--labels", _flags(own), 2)
        raise UserError(
            "--label, or --labels, is Dataflow's here, for the labels of a job on Google's cloud, and there is no"
            f" --runner; did you mean {' or '.join(near)}?"
        )
    return options


def check_known(rest: Sequence[str], own: argparse.ArgumentParser) -> list[str]:
    """Check that what `own` does not know is a flag of Beam's, or of the job server, or its value.

    Returns:
      What to add for the runner; see shardmill.pipelines.flags.job_server.

    Raises:
      UserError: there is another. Of a job server that cannot be asked one is passed on that is like no flag known.
    """
    from shardmill.pipelines.flags.beam import beam_parser
    from shardmill.pipelines.flags.job_server import defaults, flags_of_server, is_portable

    parser: Any = beam_parser()
    parser.error = lambda message: _raise(UserError(message))
    known, unknown = parser.parse_known_args(list(rest))
    if not is_portable(known):
        _refuse_first(unknown, own, _flags(parser))
        return []
    theirs = flags_of_server(known) if unknown else None
    beams = [*_flags(parser), *(theirs or ())]
    for place, word in enumerate(unknown):
        if word.startswith("--"):
            flag = word.partition("=")[0]
            if flag not in theirs if theirs else difflib.get_close_matches(flag, [*_flags(own), *beams], 1, _NEAR):
                _refuse_first(unknown[place:], own, beams)
        elif not (place and unknown[place - 1].startswith("--") and "=" not in unknown[place - 1]):
            _refuse_first(unknown[place:], own, beams)
    return defaults(rest)


def _refuse_first(unknown: Sequence[str], own: argparse.ArgumentParser, beams: Sequence[str]) -> None:
    if not unknown:
        return
    word = unknown[0].split("=")[0]
    if not word.startswith("-"):
        raise UserError(f"unexpected {unknown[0]!r}: no flag stands before it; --help lists them")
    near = nearest_flags(word, _flags(own), beams)
    raise UserError(f"unknown flag {unknown[0]}" + (f"; did you mean {' or '.join(near)}?" if near else ""))


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def nearest_flags(word: str, own: Sequence[str], beams: Sequence[str]) -> list[str]:
    """What an unknown flag may be meant to be: the nearest of ours, but of Beam's hundreds only one that is near, and
    nearer."""
    mine = difflib.get_close_matches(word, [flag for flag in own if flag not in OF_SAYING], 1)
    saying = difflib.get_close_matches(word, [flag for flag in own if flag in OF_SAYING], 1)
    if saying and (not mine or _likeness(word, saying[0]) > _likeness(word, mine[0]) + _FAR):
        mine = saying
    theirs = difflib.get_close_matches(word, beams, 1, _NEAR)
    if mine and theirs and _likeness(word, theirs[0]) <= _likeness(word, mine[0]):
        return mine
    if theirs and mine and _likeness(word, mine[0]) < _NEAR:
        return theirs
    return [*mine, *theirs]


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def check_folder_first(arguments: Sequence[str], folder: str, rest: Sequence[str]) -> None:
    """Refuse `--runner X FOLDER`: only Beam knows that X belongs to its flag, and we would have taken X for the folder.

    Raises:
      UserError: an option of Beam comes before the folder.
    """
    before = arguments[: list(arguments).index(folder)]
    if any(flag in before for flag in rest if flag.startswith("-")):
        raise UserError(
            f"{folder!r} was taken for the data set's folder; give the folder first, then the options of Beam"
        )


def _raise(error: Exception) -> NoReturn:
    raise error
