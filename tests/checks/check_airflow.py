"""deploy/airflow/dag.py in a real Airflow, which `make check NAME=airflow` installs in an environment of its own.

It does not fit beside the packages of the other tests.

AIRFLOW_PYTHON names the interpreter.
"""

import json
import os
import re
import shlex
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from shardmill.pipelines import cli
from tests.pages.test_deploy import FINAL, told
from tests.support.command import REPOSITORY

DAY = "2026-11-20"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each task's arguments, once Airflow has loaded, checked and serialized the file."""
    home = tmp_path_factory.mktemp("airflow")
    found = home / "tasks.json"
    command = [REPOSITORY / "tests" / "support" / "airflow_dag.py", REPOSITORY / "deploy" / "airflow" / "dag.py", found]
    environment = {**os.environ, "AIRFLOW_HOME": str(home)}
    subprocess.run([os.environ["AIRFLOW_PYTHON"], *map(str, command)], env=environment, check=True)
    loaded: dict[str, Any] = json.loads(found.read_text())
    return loaded


def on_the_day(text: str) -> str:
    return text.replace("{{ ds }}", DAY)


def test_pod(tasks: dict[str, Any]) -> None:
    """Its exit status is that of the command, and what it returns is the record."""
    pod = tasks["flowers_in_a_pod"]
    (line,) = pod["arguments"]
    command, target, _ = re.split(" > | \\|\\| ", on_the_day(line), maxsplit=2)
    assert (pod["cmds"], target) == (["sh", "-c"], "/airflow/xcom/return.json")
    (recipe,), options = told(shlex.split(command))
    assert recipe.endswith(".yaml")
    assert (options.json, options.date) == (True, date.fromisoformat(DAY))
    assert pod["skip_on_exit_code"] == [options.unchanged_status]


@pytest.mark.parametrize("status", [0, 1, 3, 99])
def test_the_pod_says_its_status(tasks: dict[str, Any], tmp_path: Path, status: int) -> None:
    """Its shell ends with the status of the command, and leaves it where Kubernetes takes a message from."""
    (line,) = tasks["flowers_in_a_pod"]["arguments"]
    paths = {"/airflow/xcom": str(tmp_path), "/dev/termination-log": str(tmp_path / "message")}
    for path, own in paths.items():
        line = line.replace(path, own)
    done = subprocess.run(["sh", "-c", f"shardmill() {{ echo record; return {status}; }}; {line}"])
    assert (done.returncode, (tmp_path / "return.json").read_text()) == (status, "record\n")
    said = f"shardmill ended with status {status}\n"
    assert ((tmp_path / "message").read_text() if status else "") == (said if status else "")


@pytest.mark.parametrize("task", ["flowers_in_a_pod", "flowers_on_flink"])
def test_what_another_try_does_not_mend_is_not_tried_again(tasks: dict[str, Any], task: str) -> None:
    assert set(tasks[task]["fails_at_once"]) == FINAL


def test_flink(tasks: dict[str, Any]) -> None:
    """The words that the operator makes of its arguments are those of the command, and Beam's."""
    flink = tasks["flowers_on_flink"]
    interpreter_options, command = flink["py_options"][:2], flink["py_options"][2:]
    assert interpreter_options == ["-m", "shardmill"]
    beam = [f"--runner={flink['runner']}", *(f"--{name}={value}" for name, value in flink["pipeline_options"].items())]
    (recipe,), options = told(["shardmill", *command, flink["py_file"], *map(on_the_day, beam[-3:-2])])
    assert Path(recipe).is_absolute()
    assert options.date == date.fromisoformat(DAY)
    _, rest = cli.find_command("rebuild").parser().parse_known_args([recipe, *beam])
    assert rest == ["--runner=FlinkRunner", "--flink_master=flink:8081", "--environment_type=LOOPBACK"]
