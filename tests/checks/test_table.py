"""The table of environments and checks, and how CI runs them."""

import re
import tomllib

import pytest

from tests.checks.__main__ import CHECKS, ENVIRONMENTS, ROOT, list_checks, run_ci


def test_the_table_names_what_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for row in ENVIRONMENTS.values():
        assert {*row.get("groups", ())} <= project["dependency-groups"].keys()
        assert {*row.get("extras", ())} <= project["project"]["optional-dependencies"].keys()
    for name, check in CHECKS.items():
        text = "\n".join([*check["commands"], *check.get("variables", {}).values()])
        assert {*re.findall(r"(?<!\$)\{([\w-]+)\}", text)} <= {*ENVIRONMENTS, "uv"}, name
        assert [
            path for path in re.findall(r"(?:tests|examples|docs)/[\w/]+\.py", text) if not (ROOT / path).exists()
        ] == []
        assert [folder for folder in check.get("npm", ()) if not (ROOT / folder / "package-lock.json").exists()] == []
    run = "\n".join(command for check in CHECKS.values() for command in check["commands"])
    assert [path for path in (ROOT / "tests/checks").glob("check_*.py") if path.name not in run] == []
    assert all(f"\n{name} " in list_checks() for name in CHECKS)


def test_ci_names_the_command_that_repeats_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_ci(["echo early; false", "echo fine"], ["exit 3", "echo late"])

    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "early"
    assert lines[1].startswith("FAILED with status 1; repeat it alone with: echo early; false (")
    assert any(line.startswith("passed: echo late (") for line in lines)
    assert lines[-2:] == ["failed: echo early; false", "failed: exit 3"]


def test_ci_names_the_checks_that_it_did_not_begin(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_ci(["echo always"], ["echo one", "echo two"], last_begin_s=0)

    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "always"
    assert lines[-2:] == [f"not run, because 0 minutes had passed: echo {name}" for name in ("one", "two")]
