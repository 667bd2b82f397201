"""The flags that every job has: parsing, with one sentence for each mistake."""

import argparse
import difflib
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn

from shardmill.errors import UserError
from shardmill.labels import ON_NEW_LABEL, parse_labels
from transforms.inputs.folders import FolderRoles, parse_roles
from transforms.stores import storage

# What else than a second time may be meant.
_TWICE = {
    "--input": ", a folder that holds everything or a glob such as 'data/*/*'",
    "--splits": ", as in --splits train=0.8,test=0.2",
    "--num_shards": ", as in --num_shards train=16,test=2",
    "--drop": ", as in --drop a,b",
    "--only": ", as in --only a,b",
}
_NEAR = 0.8  # how like another word a misspelt one is, by difflib's measure
ON_DAMAGED_FILE = ("fail", "reject")
_UNITS = {"": 1, "b": 1, **{f"{u}{s}": (1024 if "i" in s else 1000) ** p for p, u in enumerate("kmgt", 1) for s in ("", "b", "ib")}}


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
        missing = [action for action in required if getattr(found, action.dest) is None]
        if missing:
            check_known(rest, self)
            names = ", ".join("/".join(action.option_strings) or action.dest for action in missing)
            self.error(f"the following arguments are required: {names}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Raise `message` as a UserError."""
        flag = re.fullmatch(r"argument (--\w+): expected one argument", message)
        raise UserError(f"{message}; write one that begins with '-' as {flag[1]}=VALUE" if flag else message)


def parse_size(text: str) -> int:
    """Bytes from `128MiB`, `1GB`, `500k` or `4096`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; expected a number and a unit, such as 128MiB or 1GB")
    return int(Fraction(match[1]) * _UNITS[match[2]])


def parse_splits(text: str) -> tuple[tuple[str, Fraction], ...]:
    """Names and fractions from `train=0.8,test=0.2`; they must add up to 1, up to rounding (0.333 three times is fine)."""
    splits: dict[str, Fraction] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        try:
            fraction = Fraction(number)
        except (ValueError, ZeroDivisionError):
            raise argparse.ArgumentTypeError(f"{part!r} is not name=fraction, such as train=0.8") from None
        if not equals or not re.fullmatch(r"\w+", name, re.ASCII):
            raise argparse.ArgumentTypeError(f"{part!r} is not name=fraction with a name of letters, digits and '_'")
        if fraction <= 0:
            raise argparse.ArgumentTypeError(f"split {name!r} has fraction {number}; expected more than 0")
        if name in splits:
            raise argparse.ArgumentTypeError(f"split {name!r} is named twice")
        splits[name] = fraction
    total = sum(splits.values(), Fraction(0))
    if abs(total - 1) > Fraction(1, 200):
        raise argparse.ArgumentTypeError(f"the fractions add up to {float(total):g}; expected 1")
    return tuple((name, fraction / total) for name, fraction in splits.items())


def parse_num_shards(text: str) -> int | tuple[tuple[str, int], ...]:
    """One number for every split (`8`), or one for each (`train=16,test=2`)."""
    try:
        if "=" not in text:
            return int(text)
        pairs = [part.partition("=") for part in text.split(",")]
        counts = tuple((name.strip(), int(count)) for name, _, count in pairs)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor split=number,…") from None
    if len(dict(counts)) < len(counts):
        raise argparse.ArgumentTypeError(f"{text!r} names a split twice")
    return counts


EPILOG = (
    "Every option of Apache Beam is passed through: --runner, --direct_num_workers, --region, … "
    "Exit status: 0 done; 1 the job failed, and nothing was published unless it says so; "
    "2 a mistake in a flag or the input, nothing was written; "
    "130 interrupted, 143 terminated, both cleaned up."
)


def parse_folders(text: str) -> FolderRoles:
    """What each level of folders is, from `split/label` or `any/label`."""
    try:
        return parse_roles(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_folder_option(group: Any) -> None:
    """The flag about folders."""
    group.add_argument(
        "--folders",
        type=parse_folders,
        help="what each level of folders is: label, split/label, any/label, any, … (default: by their names)",
    )


def parse_rename(text: str) -> tuple[str, str]:
    """(name, new name) from `image=image_raw`."""
    old, equals, new = text.partition("=")
    if not old or not equals or not new:
        raise argparse.ArgumentTypeError(f"{text!r} is not name=new name, such as image=image_raw")
    return old, new


def add_manifest_options(group: Any) -> None:
    """The flags about a manifest's columns and names."""
    group.add_argument("--file_column", default="", help="of a manifest: names the files (default: file_name or image_uri)")
    group.add_argument("--label_column", default="label", help="of a manifest: holds the labels (default: %(default)s)")
    group.add_argument("--file_suffix", default="", help="what a manifest's file names lack, such as .jpg")
    group.add_argument("--file_root", default="", help="the folder of a manifest's files, as seen from its own, such as train/")


def add_label_options(group: Any) -> None:
    """The flags about class names."""
    group.add_argument("--labels_file", help="class names, one a line: freezes their ids")
    group.add_argument(
        "--on_new_label", choices=ON_NEW_LABEL, default="fail", help="what a class not in --labels_file does (default: %(default)s)"
    )


def add_output_options(parser: Parser) -> None:
    """The flags about where the data set is written."""
    output = parser.add_argument_group("output")
    output.add_argument("--output", required=True, help="the folder of all data sets")
    output.add_argument("--name", required=True, help="of the data set")
    output.add_argument("--version", default="1.0.0", help="of the data set (default: %(default)s)")
    output.add_argument(
        "--rename",
        type=parse_rename,
        action="append",
        default=[],
        metavar="NAME=NEW",
        help="what a feature is called in examples, such as image=image_raw; other flags keep to NAME; repeat",
    )
    output.add_argument("--overwrite", action="store_true", help="replace a published version")
    output.add_argument("--dry_run", action="store_true", help="say what would be read and written, and write nothing")


def add_split_options(parser: Parser, order: str) -> None:
    """The flags about splits and order; `order` is what --no_shuffle keeps."""
    split = parser.add_argument_group("splits and order")
    split.add_argument("--splits", type=parse_splits, help="name=fraction,… (default: all in train)")
    split.add_argument("--group_by", help="a column whose equal values stay in one split")
    split.add_argument("--stratify_by", help="label, or a column: exact fractions within each of its values")
    split.add_argument("--seed", type=int, default=0, help="of the order (default: %(default)s)")
    split.add_argument("--split_seed", type=int, default=0, help="of the splits (default: %(default)s)")
    split.add_argument("--no_shuffle", action="store_true", help=f"keep the order of {order}")


def add_shard_options(parser: Parser) -> None:
    """The flags about shards."""
    shards = parser.add_argument_group("shards")
    shards.add_argument("--shard_size", type=parse_size, help="of a shard, about (default: 128MiB)")
    shards.add_argument("--num_shards", type=parse_num_shards, help="of every split, or split=number,…")
    shards.add_argument(
        "--balance", choices=("examples", "bytes"), default="examples", help="what shards are equal in (default: %(default)s)"
    )
    shards.add_argument(
        "--compression", choices=("none", "gzip"), default="none", help="gzip keeps TFDS from reading it (default: %(default)s)"
    )


def add_run_options(parser: Parser) -> Any:
    """The flags about the run; returns their group."""
    run = parser.add_argument_group("run")
    run.add_argument("--max_reject_fraction", type=float, default=0.01, help="more rejects fail the job (default: %(default)s)")
    run.add_argument(
        "--on_damaged_file",
        choices=ON_DAMAGED_FILE,
        default="fail",
        help="what a file does of which nobody knows how many records cannot be read (default: %(default)s)",
    )
    run.add_argument("--threads", type=int, default=0, help="that read and encode in each worker (default: chosen by the input)")
    run.add_argument("--debug", action="store_true", help="show the full trace of a failure")
    return run


def common_values(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of a JobConfig, and whatever else was parsed; reads --labels_file.

    Raises:
      UserError: a mistake, named.
    """
    values = vars(args).copy()
    for flag in ("dry_run", "debug"):
        values.pop(flag)
    labels_file, counts = values.pop("labels_file"), values.pop("num_shards")
    if isinstance(counts, tuple):
        values["split_shards"] = counts
    else:
        values["num_shards"] = counts
    values["rename"] = tuple(values["rename"])
    if labels_file is not None:
        values["labels"] = _read_labels(labels_file)
    return values


def _read_labels(path: str) -> tuple[str, ...]:
    try:
        return parse_labels(storage.read_bytes(path).decode(), path)
    except OSError as error:
        raise UserError(f"--labels_file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"--labels_file {path} is not UTF-8") from None


def beam_options(rest: Sequence[str], own: argparse.ArgumentParser) -> Any:
    """Beam's PipelineOptions from the flags that are not ours.

    Raises:
      UserError: a flag that neither we nor Beam know, with the nearest that one of us does; Beam only warns.
    """
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

    check_known(rest, own)
    options = PipelineOptions(list(rest))
    if options.get_all_options()["labels"] and not options.view_as(StandardOptions).runner:
        near = difflib.get_close_matches("--labels", _flags(own), 2)
        raise UserError(
            f"--label, or --labels, is Dataflow's here, for the labels of a job on Google's cloud, and there is no --runner; "
            f"did you mean {' or '.join(near)}?"
        )
    return options


def check_known(rest: Sequence[str], own: argparse.ArgumentParser) -> None:
    """Check that what `own` does not know is a flag of Beam's, or its value; raises UserError."""
    from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser

    from transforms.stores import s3_retries  # noqa: F401  # which adds an option to those of Beam

    parser = _BeamArgumentParser(allow_abbrev=False)
    for view in PipelineOptions.__subclasses__():
        view._add_argparse_args(parser)
    parser.error = lambda message: _raise(UserError(message))
    _, unknown = parser.parse_known_args(list(rest))
    if not unknown:
        return
    word = unknown[0].split("=")[0]
    if not word.startswith("-"):
        raise UserError(f"unexpected {unknown[0]!r}: no flag stands before it; --help lists them")
    near = nearest_flags(word, _flags(own), _flags(parser))
    raise UserError(f"unknown flag {unknown[0]}" + (f"; did you mean {' or '.join(near)}?" if near else ""))


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def nearest_flags(word: str, own: Sequence[str], beams: Sequence[str]) -> list[str]:
    """What an unknown flag may be meant to be: the nearest of ours, but of Beam's hundreds only one that is near, and nearer."""
    mine = difflib.get_close_matches(word, own, 1)
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
        raise UserError(f"{folder!r} was taken for the data set's folder; give the folder first, then the options of Beam")


def _raise(error: Exception) -> NoReturn:
    raise error
