"""The pages on clusters, and the files of deploy/ for them: each command line is parsed by the command, each file as
Kubernetes does."""

import json
import re
import shlex
from importlib.metadata import version

import pytest
import yaml

from shardmill.pipelines.commands.convert import launch_arguments
from tests.support.command import REPOSITORY
from tests.support.later import Later
from tests.support.pages import blocks, check_command, commands

kubernetes_validate = Later("kubernetes_validate")

PAGES = [REPOSITORY / "docs" / f"{name}.md" for name in ("clusters", "flink", "spark", "dataflow")]
BLOCKS = [block.text for page in PAGES for block in blocks(page) if block.text.startswith("shardmill ")]
DEPLOY = REPOSITORY / "deploy"


# A configuration lists the metadata files of its input
pytestmark = pytest.mark.usefixtures("gs_endpoint")


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_commands(block: str) -> None:
    known = check_command(shlex.split(block.replace("\\\n", " ")))
    assert known.runner in ("PortableRunner", "DataflowRunner")


def test_every_command_is_looked_at() -> None:
    assert len(BLOCKS) == sum(page.read_text().count("\nshardmill ") for page in PAGES) == 5


def told(words: list[str]) -> dict[str, list[str]]:
    """The flags of a command of gcloud, each with all its values; what is none stands under ""."""
    flags: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        name = word if word.startswith("--") else ""
        flags.setdefault(name, []).append(next(rest) if name else word)
    return flags


def test_flex_template() -> None:
    """Its flags are not in any package; that names agree, and the parameters are a command line, is."""
    (block,) = (block for page in PAGES for block in blocks(page) if block.text.startswith("gcloud "))
    submit, build, run = (told(words) for words, _ in commands(block))
    assert build[""] == ["gcloud", "dataflow", "flex-template", "build", *run["--template-file-gcs-location"]]
    assert submit["--tag"] == build["--image"]
    metadata = json.loads((REPOSITORY / build["--metadata-file"][0]).read_text())
    given = dict(pair.split("=", 1) for pairs in run["--parameters"] for pair in pairs.split(","))
    assert given["sdk_container_image"] == build["--image"][0]
    assert given.keys() <= {parameter["name"] for parameter in metadata["parameters"]}
    check_command(["shardmill", *launch_arguments(f"--{name}={value}" for name, value in given.items())])


def test_job() -> None:
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


def test_cluster() -> None:
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
