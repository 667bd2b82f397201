"""What deploy/ holds, for schedulers: each file is parsed as its scheduler does, its command lines as the command
does."""

import ast
import re
import shlex
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml
from croniter import croniter

from shardmill import __version__
from shardmill.errors import ChecksError, LockedError, OutdatedError, UserError
from shardmill.pipelines.commands.rebuild import rebuild_parser
from shardmill.pipelines.nightly.recipe import RebuildOptions, Recipe, load_recipes
from tests.support.command import REPOSITORY
from tests.support.later import Later

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
    args, rest = rebuild_parser().parse_known_args(words[2:])
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
    """`make airflow` tells what a real Airflow makes of them."""
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
    assert {status for status, verdict in again.items() if verdict == "yes"} == {1, 130, 143}


def test_files_named_in_the_readme() -> None:
    named = re.findall(r"\]\(([^)#]+)", (DEPLOY / "README.md").read_text())
    assert all((DEPLOY / name).exists() for name in named)
    assert {name.split("/")[0] for name in named} >= {path.name for path in DEPLOY.iterdir() if path.is_dir()}
