"""What deploy/ holds, the Dockerfile, and the pages on clusters.

Each file is parsed as its scheduler does, and each command line as the command does; the Dockerfile is looked at as far
as it can be without Docker.
"""

import ast
import json
import re
import shlex
import subprocess
import tomllib
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from croniter import croniter

from deploy.dataflow.launch import launch_arguments
from shardmill import __version__
from shardmill.addons.nightly.recipe import RebuildOptions, Recipe, load_recipes
from shardmill.errors import ChecksError, LockedError, OutdatedError, UserError
from shardmill.pipelines import cli
from tests.support.command import REPOSITORY
from tests.support.later import Later
from tests.support.pages import blocks, check_command, commands

kubernetes_validate = Later("kubernetes_validate")

DEPLOY = REPOSITORY / "deploy"
# Which another try does not mend
FINAL = {error.exit_status for error in (UserError, ChecksError, LockedError, OutdatedError)}


def test_images_and_the_changelog_have_the_version_of_the_package() -> None:
    files = [path for folder in (DEPLOY, REPOSITORY / "docs") for path in folder.rglob("*") if path.is_file()]
    tags = [tag.decode() for path in files for tag in re.findall(rb"/shardmill:([\w.]+)", path.read_bytes())]

    assert len(tags) >= 10
    assert set(tags) == {__version__}
    assert f"\n## {__version__} - " in (REPOSITORY / "CHANGELOG.md").read_text()


def told(words: list[str]) -> tuple[list[str], RebuildOptions]:
    """The recipes of a command line, and what `shardmill rebuild` is told beside them; nothing may be left over."""
    assert words[:2] == ["shardmill", "rebuild"]
    args, rest = cli.find_command("rebuild").parser().parse_known_args(words[2:])
    assert rest == []
    values = vars(args)
    recipes = values.pop("recipes")
    del values["debug"]
    return recipes, RebuildOptions(**values)


def words_of(container: dict[str, Any]) -> list[str]:
    return [*container["command"], *container["args"]]


def test_recipe(tmp_path: Path) -> None:
    """With a local folder in place of the bucket, which would be listed."""
    text = (DEPLOY / "recipes" / "flowers.yaml").read_text()
    assert "gs://my-bucket/" in text
    (tmp_path / "flowers.yaml").write_text(text.replace("gs://my-bucket/", f"{tmp_path}/"))
    (recipe,) = load_recipes([str(tmp_path / "flowers.yaml")], {}, date(2026, 11, 20), {})
    assert isinstance(recipe, Recipe)
    assert recipe.config(recipe.build.version).version == "1.0.20261120"


def test_cron() -> None:
    *settings, line = [
        line for line in (DEPLOY / "cron" / "shardmill").read_text().splitlines() if not line.startswith("#")
    ]
    assert [setting.partition("=")[0] for setting in settings] == ["PATH", "MAILTO"]
    *schedule, user, command = line.split(" ", 6)
    night = croniter(" ".join(schedule), datetime(2026, 11, 20, 12, tzinfo=UTC)).get_next(datetime)
    assert (user, night) == ("shardmill", datetime(2026, 11, 21, 2, 15, tzinfo=UTC))
    recipes, options = told(shlex.split(command.partition(" 2>&1 | ")[0]))
    assert (recipes, options.log_format) == (["/etc/shardmill/recipes"], "json")


def test_kubernetes() -> None:
    job = yaml.safe_load((DEPLOY / "kubernetes" / "cronjob.yaml").read_text())
    kubernetes_validate.validate(job, "1.31", strict=True)
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    spec = job["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    on_exit = spec["podFailurePolicy"]["rules"][0]
    assert on_exit["action"] == "FailJob"
    assert on_exit["onExitCodes"]["containerName"] == container["name"]
    assert set(on_exit["onExitCodes"]["values"]) == FINAL
    (recipe,), options = told(words_of(container))
    assert options.log_format == "json"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert Path(recipe) == Path(mounts["recipes"], "flowers.yaml")


def test_airflow() -> None:
    """`make check NAME=airflow` tells what a real Airflow makes of them."""
    names = {
        target.id: node.value
        for node in ast.parse((DEPLOY / "airflow" / "dag.py").read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert set(ast.literal_eval(names["NOT_RETRIED"])) == FINAL


def test_cloud_run() -> None:
    """Its schema is not in any package; what the script schedules is the job of the file."""
    job = yaml.safe_load((DEPLOY / "cloud_run" / "job.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("run.googleapis.com/v1", "Job")
    (container,) = job["spec"]["template"]["spec"]["template"]["spec"]["containers"]
    told(words_of(container))
    script = DEPLOY / "cloud_run" / "schedule.sh"
    printing = 'gcloud() { printf "%s\\0" "$@"; }; export -f gcloud; bash "$0"'
    done = subprocess.run(["bash", "-c", printing, str(script)], capture_output=True, text=True, check=True)
    words = done.stdout.split("\0")[:-1]
    assert words[:4] == ["scheduler", "jobs", "create", "http"]
    flags = dict(zip(words[5::2], words[6::2], strict=True))
    assert croniter.is_valid(flags["--schedule"])
    assert flags["--uri"].endswith(f"/jobs/{job['metadata']['name']}:run")


def test_statuses_in_the_readme() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| .* \| (.*) \|$", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    again = {int(status): verdict.partition(":")[0] for statuses, verdict in rows for status in statuses.split(", ")}
    assert {status for status, verdict in again.items() if verdict == "no"} == FINAL
    assert {status for status, verdict in again.items() if verdict == "yes"} == {1, 129, 130, 143}


def test_files_named_in_the_readme() -> None:
    named = re.findall(r"\]\(([^)#]+)", (DEPLOY / "README.md").read_text())
    assert all((DEPLOY / name).exists() for name in named)
    assert {name.split("/")[0] for name in named} >= {path.name for path in DEPLOY.iterdir() if path.is_dir()}


TEXT = re.sub(r"\\\n", " ", (REPOSITORY / "Dockerfile").read_text())
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def instructions(instruction: str) -> list[str]:
    return [rest for word, rest in LINES if word == instruction]


def test_instructions_are_dockers() -> None:
    assert {word for word, _ in LINES} == {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "ENTRYPOINT"}
    assert LINES[0][0] == "ARG"  # before FROM, for the tag


def test_what_is_copied_is_there() -> None:
    stages = {stage for line in instructions("FROM") for stage in line.split(" AS ")[1:]}
    for line in instructions("COPY"):
        *sources, _ = line.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
        else:
            assert [name for name in sources if not (REPOSITORY / name).exists()] == []


def test_the_packages_of_the_tests() -> None:
    """Beam's version, in the image's name, is the one that is tested; the extras exist."""
    (version,) = (line.removeprefix("BEAM_VERSION=") for line in instructions("ARG"))
    assert f"apache-beam=={version}\n" in (REPOSITORY / "constraints.txt").read_text()
    (extras,) = re.findall(r"'\.\[(.*)\]'", " ".join(instructions("RUN")))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_worker_launcher_and_template() -> None:
    copied = {line.split()[-1]: line.split()[-2] for line in instructions("COPY")}
    environment = dict(line.split("=", 1) for line in instructions("ENV"))
    assert copied[environment["FLEX_TEMPLATE_PYTHON_PY_FILE"]] == "deploy/dataflow/launch.py"
    assert "/opt/google/dataflow/python_template_launcher" in copied  # where Dataflow looks for it
    assert instructions("ENTRYPOINT") == ['["/opt/apache/beam/boot"]']


PAGES = [REPOSITORY / "docs" / f"{name}.md" for name in ("clusters", "flink", "spark", "dataflow")]
COMMANDS = [
    words
    for page in PAGES
    for block in blocks(page)
    if block.text.startswith("shardmill ")
    for words, _ in commands(block)
    if words[1] != "sample"  # which makes the input
]


@pytest.mark.usefixtures("gs_endpoint")  # a configuration lists the metadata files of its input
@pytest.mark.parametrize("words", COMMANDS, ids=range(len(COMMANDS)))
def test_commands_of_clusters(words: list[str]) -> None:
    known = check_command(words)
    assert known.runner in ("PortableRunner", "DataflowRunner")


def test_every_command_is_looked_at() -> None:
    samples = sum(page.read_text().count("\nshardmill sample ") for page in PAGES)
    assert len(COMMANDS) + samples == sum(page.read_text().count("\nshardmill ") for page in PAGES)
    assert len(COMMANDS) == 5


def flags_of(words: list[str]) -> dict[str, list[str]]:
    """The flags of a command of gcloud, each with all its values; what is none stands under ""."""
    flags: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        name = word if word.startswith("--") else ""
        flags.setdefault(name, []).append(next(rest) if name else word)
    return flags


@pytest.mark.usefixtures("gs_endpoint")
def test_flex_template() -> None:
    """Its flags are not in any package; that names agree, and the parameters are a command line, is."""
    (block,) = (block for page in PAGES for block in blocks(page) if block.text.startswith("gcloud "))
    submit, build, run = (flags_of(words) for words, _ in commands(block))
    assert build[""] == ["gcloud", "dataflow", "flex-template", "build", *run["--template-file-gcs-location"]]
    assert submit["--tag"] == build["--image"]
    metadata = json.loads((REPOSITORY / build["--metadata-file"][0]).read_text())
    given = dict(pair.split("=", 1) for pairs in run["--parameters"] for pair in pairs.split(","))
    assert given["sdk_container_image"] == build["--image"][0]
    assert given.keys() <= {parameter["name"] for parameter in metadata["parameters"]}
    check_command(["shardmill", *launch_arguments(f"--{name}={value}" for name, value in given.items())])


@pytest.mark.usefixtures("gs_endpoint")
def test_kubernetes_job() -> None:
    job = yaml.safe_load((DEPLOY / "kubernetes" / "job.yaml").read_text())
    kubernetes_validate.validate(job, "1.31", strict=True)
    pod = job["spec"]["template"]["spec"]
    (launcher,), (server,) = pod["containers"], pod["initContainers"]
    known = check_command([*launcher["command"], *launcher["args"]])
    flags = dict(word.removeprefix("--").split("=", 1) for word in server["args"])
    assert known.job_endpoint == f"localhost:{flags['job-port']}"
    assert server["restartPolicy"] == "Always"  # or the launcher would wait for its end
    cluster = yaml.safe_load((DEPLOY / "flink" / "flinkdeployment.yaml").read_text())
    assert flags["flink-master"] == f"{cluster['metadata']['name']}-rest:8081"
    slots = int(cluster["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"])
    assert known.parallelism == slots * cluster["spec"]["taskManager"]["replicas"]


def test_flink_cluster() -> None:
    cluster = yaml.safe_load((DEPLOY / "flink" / "flinkdeployment.yaml").read_text())
    spec = cluster["spec"]
    assert (cluster["apiVersion"], cluster["kind"]) == ("flink.apache.org/v1beta1", "FlinkDeployment")
    assert spec["flinkVersion"] == "v" + spec["image"].partition(":")[2].replace(".", "_")
    flink = spec["image"].partition(":")[2]
    job = (DEPLOY / "kubernetes" / "job.yaml").read_text()
    (server,) = re.findall(r"beam_flink([\d.]+)_job_server:([\d.]+)", job)
    assert server == (flink, version("apache-beam"))
    image = (DEPLOY / "flink" / "Dockerfile").read_text()
    assert f"FROM flink:{flink}\n" in image
    assert f"COPY beam-runners-flink-{flink}-job-server-{server[1]}.jar /opt/flink/lib/" in image
    assert spec["flinkConfiguration"]["classloader.resolve-order"] == "parent-first"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **spec["taskManager"]["podTemplate"]}
    kubernetes_validate.validate(pod, "1.31", strict=True)
    main, workers = pod["spec"]["containers"]
    assert main == {"name": "flink-main-container"}
    assert workers["args"] == ["--worker_pool"]
    assert workers["image"] in job
