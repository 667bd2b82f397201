"""Run by `make lean`: an installation without extras converts, says nothing else, and names the extra that a command
lacks.

usage: lean_install.py SHARDMILL DEMO, the command of that installation, and the folder with the inputs of `make demo`.
"""

import subprocess
import sys
from pathlib import Path

CONVERSIONS = (
    ("images", "--input", "digits"),
    ("csv", "--input", "tables/wine.csv", "--label", "cultivar"),
    ("text", "--input", "tables/text"),
    ("text", "--input", "tables/text", "--record", "file"),
)
LACKING = (
    (("csv", "--input", "gs://bucket/a.csv"), "gs:// needs Google's clients", "gcp"),
    (("csv", "--input", "s3://bucket/a.csv"), "s3:// needs boto3 and obstore", "aws"),
    (
        ("text", "--input", "tables/text", "--runner", "DataflowRunner"),
        "--runner DataflowRunner needs Google's clients",
        "gcp",
    ),
    (("reshard", "--input", "tables"), "reshard decodes Examples with tfx-bsl", "reshard"),
)


def main() -> None:
    shardmill, demo = str(Path(sys.argv[1]).absolute()), sys.argv[2]
    python = str(Path(shardmill).with_name("python"))
    heavy = (
        "import sys, shardmill.pipelines.jobs.record_graphs, shardmill.pipelines.jobs.file_graphs; "
        "print([m for m in ('tensorflow', 'pandas', 'boto3') if m in sys.modules])"
    )
    assert run(demo, python, "-c", heavy).stdout == "[]\n"
    for number, conversion in enumerate(CONVERSIONS):
        name = f"lean_{number}"
        done = run(demo, shardmill, *conversion, "--output", "lean", "--name", name, "--overwrite")
        assert done.returncode == 0, done.stderr
        assert "apitools" not in done.stderr, done.stderr
        assert run(demo, shardmill, "verify", f"lean/{name}").returncode == 0
        print(done.stdout.splitlines()[0])
    for arguments, sentence, extra in LACKING:
        done = run(demo, shardmill, *arguments, "--output", "lean", "--name", "lacking")
        assert done.returncode == 2, done
        assert f"{sentence}; run: pip install " in done.stderr, done.stderr
        assert done.stderr.endswith(f"[{extra}]'\n"), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        print(done.stderr, end="")
    done = run(demo, python, "-c", "import shardmill; shardmill.load('lean/lean_0', 'train', batch_size=4)")
    assert "UserError: reading into tensors needs TensorFlow; run: pip install " in done.stderr, done.stderr
    assert done.stderr.endswith("[tensorflow]'\n"), done.stderr
    counted = "import shardmill; print(sum(1 for _ in shardmill.examples('lean/lean_1', 'train')))"
    assert run(demo, python, "-c", counted).stdout == "178\n"


def run(folder: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()
