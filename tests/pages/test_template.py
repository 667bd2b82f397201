"""The commands as a Flex Template: its metadata is what the flags declare, and a launch is a command line."""

import json
import re
import subprocess
from dataclasses import MISSING
from typing import Any

import pytest
from google.cloud.dataflow_v1beta3.types import ParameterType, TemplateMetadata
from google.protobuf import json_format

from deploy.dataflow.launch import launch_arguments, template_metadata
from shardmill.errors import UserError
from shardmill.pipelines import cli
from shardmill.pipelines.config.beam_flags import beam_parser
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import REPOSITORY

FILE = REPOSITORY / "deploy" / "dataflow" / "metadata.json"
PARAMETERS: list[dict[str, Any]] = template_metadata()["parameters"]


def test_the_file_is_what_the_flags_declare() -> None:
    assert json.loads(FILE.read_text()) == template_metadata(), "run deploy/dataflow/write_metadata.py"


def test_google_reads_it() -> None:
    """As the service's own message, which has no field that the message lacks."""
    found = json_format.ParseDict(json.loads(FILE.read_text()), TemplateMetadata.pb(TemplateMetadata()))
    assert len({parameter.name for parameter in found.parameters}) == len(found.parameters) > 60
    for parameter in found.parameters:
        assert parameter.label
        assert parameter.help_text
        assert re.fullmatch(r"[a-zA-Z][-_a-zA-Z0-9]*", parameter.name)
        assert (parameter.param_type == ParameterType.ENUM) == bool(parameter.enum_options)
    required = [parameter.name for parameter in found.parameters if not parameter.is_optional]
    assert required == ["command", "output", "name"]


@pytest.mark.parametrize(
    ("name", "value", "matches"),
    [
        ("input", "gs://b/p/*.jpg", True),
        ("input", "de=gs://b/a.de;en=gs://b/a.en", True),
        ("input", "de=a.de", False),
        ("output", "here", False),
        ("seed", "7", True),
        ("seed", "x", False),
    ],
)
def test_regexes_are_of_egrep(name: str, value: str, matches: bool) -> None:
    (pattern,) = next(parameter["regexes"] for parameter in PARAMETERS if parameter["name"] == name)
    done = subprocess.run(["grep", "-E", pattern], input=value, text=True, capture_output=True)
    assert (done.returncode == 0) is matches


@pytest.mark.parametrize("command", KINDS)
def test_every_flag_of_a_command_is_a_parameter(command: str) -> None:
    parser = cli.find_command(command).parser()
    by_name = {parameter["name"]: parameter for parameter in PARAMETERS}
    for option in (option for option in KINDS[command].options if not option.flag.hidden):
        parameter = by_name[option.name]
        choices = parameter.get("enumOptions") or [{}]
        value = {"BOOLEAN": "true", "ENUM": choices[0].get("value")}.get(parameter["paramType"], "7")
        required = [other.name for other in KINDS[command].options if MISSING is other.default or other.flag.required]
        needed = [f"--{name}=x" for name in required if name != option.name]
        line = launch_arguments([f"--command={command}", *needed, f"--{option.name}={value}"])
        parsed, rest = parser.parse_known_args(line[1:])
        assert (line[0], rest, option.field in vars(parsed)) == (command, [], True)


def test_parallel_texts_are_launched_with_all_of_their_files() -> None:
    line = launch_arguments(["--command=text", "--input=de=gs://b/a.de;en=gs://b/a.en", "--name=n"])
    assert line == ["text", "--input=de=gs://b/a.de", "--input=en=gs://b/a.en", "--name=n"]
    (said,) = (parameter["helpText"] for parameter in PARAMETERS if parameter["name"] == "input")
    assert "text also several: NAME=PATH;OTHER=PATH" in said


def test_a_launch_is_a_command_line() -> None:
    """Options of Beam, as Google's launcher adds them, are left as they are."""
    launch = (
        "--command=images --coco=train=a.json;val=b.json --output=gs://b/o --name=n --overwrite=true --no_shuffle=False"
        ' --runner=DataflowRunner --template_location=gs://b/job --labels={"a":"b=c"} --streaming'
    )
    line = launch_arguments(launch.split())
    assert line == [
        "images",
        *("--coco=train=a.json", "--coco=val=b.json", "--output=gs://b/o", "--name=n", "--overwrite"),
        *("--runner=DataflowRunner", "--template_location=gs://b/job", '--labels={"a":"b=c"}', "--streaming"),
    ]
    own, rest = cli.find_command("images").parser().parse_known_args(line[1:])
    assert own.coco == ["train=a.json", "val=b.json"]
    assert beam_parser().parse_known_args(rest)[1] == []


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ("--name=n", "the parameter command is ''; expected one of images, arrays"),
        ("--command=image", "the parameter command is 'image'; expected one of images, arrays"),
        ("--command=csv --resize=8x8", "the parameter resize has no meaning for the command csv"),
        ("--command=csv --overwrite=yes", "the parameter overwrite is 'yes'; expected true or false"),
    ],
)
def test_mistakes(launch: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        launch_arguments(launch.split())
