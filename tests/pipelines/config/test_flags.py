"""Flags: tables of good and bad for every parser, and the sentence for each mistake."""

import argparse
import dataclasses
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions, StandardOptions

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.pipelines import cli
from shardmill.pipelines.config.flags import OUTPUT_FLAGS, BuildOutputOptions, Parser, beam_options
from shardmill.pipelines.config.images import ImagesConfig, parse_resolution
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.options.job_options import parse_num_shards, parse_path, parse_size, parse_splits
from tests.support.command import Run, check_mistake, write_files

MINIMAL = ["--input", "photos", "--output", "out", "--name", "flowers"]


SIZES = {
    **{"4096": 4096, "500k": 500_000, "500kB": 500_000, "1GB": 10**9, "1gib": 1 << 30, "128MiB": 128 << 20},
    **{"128 MiB": 128 << 20, "1.5m": 1_500_000, "0.5KiB": 512, "2T": 2 * 10**12, "7b": 7, "0": 0},
    "1.0000000000000001TiB": 1 << 40,
}


def test_sizes_in_bytes() -> None:
    assert {text: parse_size(text) for text in SIZES} == SIZES


@pytest.mark.parametrize(
    ("text", "splits"),
    [
        ("train=1", {"train": "1"}),
        ("train=0.8,test=0.2", {"train": "4/5", "test": "1/5"}),
        (" train = 0.8 , test = 0.2 ", {"train": "4/5", "test": "1/5"}),
        ("train=0.8,validation=0.1,test=0.1", {"train": "4/5", "validation": "1/10", "test": "1/10"}),
        ("a=1/3,b=2/3", {"a": "1/3", "b": "2/3"}),
        ("a=0.333,b=0.333,c=0.333", {"a": "1/3", "b": "1/3", "c": "1/3"}),
        ("a=1e-3,b=0.999", {"a": "1/1000", "b": "999/1000"}),
    ],
)
def test_splits(text: str, splits: dict[str, str]) -> None:
    found = parse_splits(text)

    assert found == tuple((name, Fraction(fraction)) for name, fraction in splits.items())
    assert sum(fraction for _, fraction in found) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "^'': expected a name"),
        ("train", "^'train' is not name=fraction"),
        ("train=", "^'train=' is not name=fraction"),
        ("train=x", "^'train=x' is not name=fraction"),
        ("train=1/0", "^'train=1/0' is not name=fraction"),
        ("train=nan", "^'train=nan' is not name=fraction"),
        ("train=0.8,", "^'': expected a name"),
        ("0.8,0.2", "^'0.8,0.2' is not name=fraction"),
        ("=1", "^'=1': expected a name"),
        ("my-split=1", "^'my-split=1' is not name=fraction with a name of letters, digits and '_'$"),
        ("tränen=1", "with a name of letters"),
        ("train=0,test=1", "^split 'train' has fraction 0; expected more than 0$"),
        ("train=1.2,test=-0.2", "^split 'test' has fraction -0.2; expected more than 0$"),
        ("train=0.5,train=0.5", "^split 'train' is named twice$"),
        ("train=0.8,test=0.1", "^the fractions add up to 0.9; expected 1$"),
        ("train=80,test=20", "^the fractions add up to 100; expected 1$"),
        ("train=0.8,test=0.21", "^the fractions add up to 1.01; expected 1$"),
    ],
)
def test_bad_splits(text: str, sentence: str) -> None:
    with pytest.raises(OptionValueError, match=sentence):
        parse_splits(text)


@pytest.mark.parametrize(
    ("text", "counts"),
    [("8", 8), ("-3", -3), ("train=16,test=2", (("train", 16), ("test", 2))), (" train = 16 ", (("train", 16),))],
)
def test_num_shards(text: str, counts: Any) -> None:
    assert parse_num_shards(text) == counts


def test_fractions_may_be_a_mapping_or_pairs() -> None:
    expected = (("train", Fraction(4, 5)), ("test", Fraction(1, 5)))
    assert parse_splits({"train": 0.8, "test": 0.2}) == parse_splits([("train", 0.8), ("test", "0.2")]) == expected


NO_SIZE = "is not a size; expected a number and a unit, such as 128MiB or 1GB"
NO_NUMBERS = "is neither a number nor split=number,…"
NO_RESOLUTION = "is not WIDTHxHEIGHT in pixels, such as 224x224"
BAD: list[tuple[Callable[[Any], object], tuple[object, ...], str]] = [
    (parse_size, ("", "MiB", "-1", "1e6", "12XB", "1.5.2M", "1,5M", "128 Mi B", "0x10", "1m2"), NO_SIZE),
    (parse_num_shards, ("", "eight", "8.5", "train", "train=", "train=16,test", "train=x", "train=16,"), NO_NUMBERS),
    (parse_num_shards, ("train=1,train=2",), "^'train=1,train=2' names a split twice$"),
    (parse_resolution, ("", "224", "224x", "x224", "0x224", "224x0", "-1x5", "224x224x3"), NO_RESOLUTION),
    (parse_resolution, ("65501x1", "1x65501", "a x b", "22.5x4"), NO_RESOLUTION),
    (parse_path, ("",), "'' is no path"),
    (parse_path, (3,), "3 is no path"),
    (parse_path, ("a\udcff",), "the path is not UTF-8; rename the folder"),
]


@pytest.mark.parametrize(
    ("parse", "value", "message"), [(parse, value, message) for parse, values, message in BAD for value in values]
)
def test_values_that_are_none(parse: Callable[[Any], object], value: object, message: str) -> None:
    with pytest.raises(OptionValueError, match=message):
        parse(value)


@pytest.mark.parametrize(("text", "size"), [("224x224", (224, 224)), ("640X480", (640, 480)), ("1x65500", (1, 65_500))])
def test_resolutions(text: str, size: tuple[int, int]) -> None:
    assert parse_resolution(text) == size


IMAGES = KINDS["images"]


def images_parser() -> Parser:
    return cli.find_command(IMAGES.name).parser()


# Flags that say what the command does, or says, and are in no configuration.
OF_THE_COMMAND = ("dry_run", "debug", "write_recipe", "json", "log_format", "quiet", "verbose")


def config(*flags: str) -> ImagesConfig:
    values = vars(images_parser().parse_args([*MINIMAL, *flags]))
    made = IMAGES.make_config({name: value for name, value in values.items() if name not in OF_THE_COMMAND})
    assert isinstance(made, ImagesConfig)
    return made


def test_defaults_are_those_of_the_configuration() -> None:
    assert config() == ImagesConfig(input="photos", output="out", name="flowers")


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (["--version", "2.0.0"], "version", "2.0.0"),
        (["--splits", "a=0.5,b=0.5"], "splits", (("a", Fraction(1, 2)), ("b", Fraction(1, 2)))),
        (["--seed", "7"], "seed", 7),
        (["--split_seed", "7"], "split_seed", 7),
        (["--no_shuffle"], "no_shuffle", True),
        (["--shard_size", "1MB"], "shard_size", 10**6),
        (["--num_shards", "8"], "num_shards", 8),
        (["--num_shards", "train=8"], "split_shards", (("train", 8),)),
        (["--balance", "bytes"], "balance", "bytes"),
        (["--compression", "gzip"], "compression", "gzip"),
        (["--verify", "decode"], "verify", "decode"),
        (["--image_format", "png"], "image_format", "png"),
        (["--resize", "4x5"], "resize", (4, 5)),
        (["--max_reject_fraction", "0.5"], "max_reject_fraction", 0.5),
        (["--on_damaged_file", "reject"], "on_damaged_file", "reject"),
        (["--max_pixels", "9"], "max_pixels", 9),
        (["--threads", "3"], "threads", 3),
        (["--overwrite"], "overwrite", True),
    ],
)
def test_each_flag_reaches_its_field(flags: list[str], field: str, value: object) -> None:
    assert getattr(config(*flags), field) == value
    assert getattr(config(), field) != value


def test_every_field_has_a_flag() -> None:
    flags = {action.dest for action in images_parser()._actions} - {"help", argparse.SUPPRESS, *OF_THE_COMMAND}
    others = {"imagefolder", "labels", "source_version", "split_shards", "add_ons", "checks"}

    found = {field.name for field in dataclasses.fields(ImagesConfig) if field.compare}
    of_add_ons = {option.field for options in registry.options_for("images") for option in options_of(options)}
    assert flags | others == found | of_add_ons


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--splits", "train=2"], "^--splits: the fractions add up to 2; expected 1$"),
        (["--num_shards", "x"], "^--num_shards: 'x' is neither a number"),
        (["--shard_size", "big"], "^--shard_size: 'big' is not a size"),
        (["--resize", "big"], "^--resize: 'big' is not WIDTHxHEIGHT"),
        (["--balance", "rows"], "^--balance rows: expected one of examples, bytes, tokens$"),
        (["--compression", "zip"], "^--compression zip: expected one of none, gzip$"),
        (["--verify", "all"], "^--verify all: expected one of header, decode, none$"),
        (["--seed", "x"], "^--seed: 'x' is not a whole number$"),
    ],
)
def test_mistakes_are_user_errors(flags: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        config(*flags)


def test_all_missing_flags_are_named() -> None:
    with pytest.raises(UserError) as raised:
        images_parser().parse_args([])
    usage = "shardmill images --input PATH --output DIR --name NAME [options]"
    assert str(raised.value) == f"the following arguments are required: --input, --output, --name; usage: {usage}"
    for index, missing in ((2, "--output"), (4, "--name")):
        with pytest.raises(UserError, match=f"the following arguments are required: {missing};"):
            images_parser().parse_args(MINIMAL[:index] + MINIMAL[index + 2 :])


def test_labels_files(tmp_path: Path) -> None:
    write_files(tmp_path, {"labels.txt": b"rose\ndaisy\n", "latin1.txt": b"r\xf6se\n", "empty.txt": b""})

    assert config("--labels_file", str(tmp_path / "labels.txt")).labels == ("rose", "daisy")
    for name, sentence in (
        ("gone.txt", "No such file or directory"),
        ("latin1.txt", "is not UTF-8"),
        ("empty.txt", "is empty"),
        ("", "Is a directory"),
    ):
        with pytest.raises(UserError, match=f"^--labels_file .*{name}:? .*{sentence}|^--labels_file .*{sentence}"):
            config("--labels_file", str(tmp_path / name))


def test_flags_of_beam_are_passed_through() -> None:
    parser = images_parser()
    words = ["--runner", "DataflowRunner", "--region=us-east1", "--direct_num_workers", "3", "--labels", "team=vision"]
    args, rest = parser.parse_known_args([*MINIMAL, *words])
    options = beam_options(rest, parser)

    assert args.name == "flowers"
    assert options.view_as(StandardOptions).runner == "DataflowRunner"
    cloud = options.view_as(GoogleCloudOptions)
    assert (cloud.region, cloud.labels) == ("us-east1", ["team=vision"])
    assert options.view_as(DirectOptions).direct_num_workers == 3


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--num_shard", "8"], "^unknown flag --num_shard; did you mean --num_shards\\?$"),
        (["--num_shard=8"], "^unknown flag --num_shard=8; did you mean --num_shards\\?$"),
        (["--runer", "x"], "^unknown flag --runer; did you mean --runner\\?$"),
        (["--qwertyuiop"], "^unknown flag --qwertyuiop$"),
        (["photos"], r"^unexpected 'photos': no flag is before it; did you mean --input photos\?$"),
        (["--label_file", "x"], "^unknown flag --label_file; did you mean --labels_file\\?$"),
        (["--regoin", "x"], "^unknown flag --regoin; did you mean --region\\?$"),
        # Not Beam's --user_agent
        (["--seperator", ";"], "^unknown flag --seperator; did you mean --list_separator\\?$"),
        (["--image_fromat", "x"], "^unknown flag --image_fromat; did you mean --image_format\\?$"),
        (["--format", "x"], "^unknown flag --format; did you mean --file_format\\?$"),  # not --log_format
        (["--log_fromat", "x"], "^unknown flag --log_fromat; did you mean --log_format\\?$"),
        (["--quiett"], "^unknown flag --quiett; did you mean --quiet\\?$"),
        (["--setup", "x"], "^unknown flag --setup; did you mean --seed\\?$"),
        (["--labels", "x"], "^--label, or --labels, is Dataflow's here.* did you mean --labels_file"),
        (["--label", "x"], "^--label, or --labels, is Dataflow's here"),
        (["--over"], "^unknown flag --over; "),  # no abbreviation
    ],
)
def test_unknown_flags(flags: list[str], sentence: str) -> None:
    parser = images_parser()
    _, rest = parser.parse_known_args([*MINIMAL, *flags])
    with pytest.raises(UserError, match=sentence):
        beam_options(rest, parser)


def test_the_flags_of_saying_are_all_known_as_such() -> None:
    assert {f"--{option.name}" for option in options_of(BuildOutputOptions)} == set(OUTPUT_FLAGS)


PARSERS = cli.parsers()


@pytest.mark.parametrize("command", PARSERS)
def test_a_flag_with_one_value_is_given_once(command: str) -> None:
    parser = PARSERS[command]
    single = [one for one in parser._actions if one.nargs is None and not isinstance(one, argparse._AppendAction)]
    single = [one for one in single if one.metavar != "COLUMN,…"]
    for flag, type_ in [(flag, one.type) for one in single for flag in one.option_strings]:
        value = "x" if type_ is None else "1"  # most take any text, which the configuration refuses
        for line in ([flag, value, flag, value], [f"{flag}={value}", flag, value], [flag, value, f"{flag}={value}"]):
            with pytest.raises(UserError, match=f"^{flag} is given twice; give it once"):
                parser.parse_known_args(line)


def test_flags_that_say_it_twice_or_add_up_may_be_repeated() -> None:
    parser = cli.find_command("csv").parser()
    for _ in range(2):  # a parser forgets the line before
        line = '--fill a=1 --fill b=2 --overwrite --overwrite --drop a --drop "b,c" --drop d,e'
        args = parser.parse_args([*MINIMAL, *line.split()])
        assert (args.name, args.fill, args.overwrite) == ("flowers", ["a=1", "b=2"], True)
        assert args.drop == 'a,"b,c",d,e'


@pytest.mark.parametrize("command", KINDS)
def test_a_misspelt_flag_that_is_required_is_what_is_wrong(command: str) -> None:
    for line in (["--output", "y", "--nmae", "x"], ["--nmae=x"]):
        with pytest.raises(UserError, match=r"^unknown flag --nmae(=x)?; did you mean --name\?$"):
            PARSERS[command].parse_known_args(line)


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_misspelt_flag_before_the_folder(run: Run, command: str) -> None:
    check_mistake(run(command, "--debgu", "folder"), "unknown flag --debgu; did you mean --debug?")
    check_mistake(run(command), f"required: DIRECTORY; usage: shardmill {command} DIRECTORY … [options]")
