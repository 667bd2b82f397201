"""Run by `make check NAME=lean`: an installation without extras converts, and names the extra that a command lacks.

usage: lean_install.py SHARDMILL DEMO READER, the command of that installation, the folder with the inputs of
`make demo`, and the command of an installation that only reads.
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
    check_reader(demo, Path(sys.argv[3]).absolute())


def check_reader(demo: str, shardmill: Path) -> None:
    """In an installation that only reads, it reads; all else ends with the command that installs the rest."""
    python = str(shardmill.with_name("python"))
    packages = list(shardmill.parents[1].glob("lib/python*/site-packages/*"))
    kept = [path for path in packages if path.name.startswith(("shardmill", "PIL", "pillow", "google_crc32c"))]
    size = sum(file.stat().st_size for path in kept for file in path.rglob("*") if file.is_file())
    assert 10_000_000 < size < 60_000_000, size
    print(f"the reader: {size / 1e6:.0f} MB beside NumPy")
    read = (
        "import sys, shardmill; print(shardmill.info('lean/lean_1').splits['train'].shards[0].examples, "
        "sum(1 for _ in shardmill.examples('lean/lean_1', 'train')), "
        "next(shardmill.examples('lean/lean_0', 'train', decode_images=True))['image'].shape, "
        "{name.split('.')[0] for name in sys.modules} & {'apache_beam', 'pyarrow', 'xxhash', 'yaml'})"
    )
    done = run(demo, python, "-c", read)
    assert done.stdout == "178 178 (64, 64, 3) set()\n", done
    load = run(demo, python, "-c", "import shardmill; shardmill.load('lean/lean_0', 'train', batch_size=4)")
    assert "UserError: reading into tensors needs TensorFlow; run: pip install " in load.stderr, load.stderr
    sentence = "this installation only reads data sets; to convert or verify, run: pip install "
    for command in (("verify", "lean/lean_1"), ("csv", "--input", "tables/wine.csv"), ("completion", "bash")):
        done = run(demo, str(shardmill), *command)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
        assert done.stderr.startswith(f"shardmill: error: {sentence}"), done.stderr
    print(done.stderr, end="")
    convert = "import shardmill; shardmill.convert('csv', input='tables', output='lean', name='n')"
    converted = run(demo, python, "-c", convert)
    assert f"UserError: {sentence}" in converted.stderr, converted.stderr


def run(folder: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()
