"""The Dockerfile, as far as it can be looked at without Docker: what it copies is there, and it holds what it says."""

import re
import tomllib

from tests.support.command import REPOSITORY

TEXT = re.sub(r"\\\n", " ", (REPOSITORY / "Dockerfile").read_text())
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def values(instruction: str) -> list[str]:
    return [rest for word, rest in LINES if word == instruction]


def test_instructions_are_dockers() -> None:
    assert {word for word, _ in LINES} == {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "ENTRYPOINT"}
    assert LINES[0][0] == "ARG"  # before FROM, for the tag


def test_what_is_copied_is_there() -> None:
    stages = {stage for line in values("FROM") for stage in line.split(" AS ")[1:]}
    for line in values("COPY"):
        *sources, _ = line.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
        else:
            assert [name for name in sources if not (REPOSITORY / name).exists()] == []


def test_the_packages_of_the_tests() -> None:
    """Beam's version, in the image's name, is the one that is tested; the extras exist."""
    (version,) = (line.removeprefix("BEAM_VERSION=") for line in values("ARG"))
    assert f"apache-beam=={version}\n" in (REPOSITORY / "constraints.txt").read_text()
    (extras,) = re.findall(r"'\.\[(.*)\]'", " ".join(values("RUN")))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_worker_launcher_and_template() -> None:
    copied = {line.split()[-1]: line.split()[-2] for line in values("COPY")}
    environment = dict(line.split("=", 1) for line in values("ENV"))
    assert copied[environment["FLEX_TEMPLATE_PYTHON_PY_FILE"]] == "deploy/dataflow/launch.py"
    assert "/opt/google/dataflow/python_template_launcher" in copied  # where Dataflow looks for it
    assert values("ENTRYPOINT") == ['["/opt/apache/beam/boot"]']
