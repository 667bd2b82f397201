"""`shardmill sql` on SQLite: the bytes are those of the same rows in files, secrets stay secret, and nights build."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import Run
from tests.support.jobs import Jobs

COLUMNS = ("id", "word", "x", "data", "paid", "empty")
ROWS = [
    (n if n % 9 else None, f"w{n % 5}" if n % 7 else None, n / 4, bytes([n % 256, 0]), n % 2, None) for n in range(400)
]
SECRET = "7712345"  # of a parameter, which may be a password for another driver
OPTIONS = "--label word --splits train=0.8,test=0.2 --num_shards 2 --fill id=-1 --max_reject_fraction 0.5"


@pytest.fixture(autouse=True)
def shop(jobs: Jobs) -> Path:
    """The database of a shop, with the table that a Parquet file holds, too."""
    connection = sqlite3.connect("shop.db")
    connection.execute(f"CREATE TABLE orders ({', '.join(COLUMNS)})")
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in ROWS])
    pq.write_table(table.drop_columns(["empty"]), "orders.parquet")
    return jobs.folder


def shards(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.tfrecord-*")}


def test_the_bytes_are_those_of_a_file_whatever_the_order_and_the_ranges(jobs: Jobs) -> None:
    expected = jobs.build(f"parquet --input orders.parquet {OPTIONS}")
    one = jobs.build(f"sql --url sqlite:///shop.db --query 'SELECT * FROM orders;' --version 1.0.1 {OPTIONS}")
    query = "SELECT * FROM orders ORDER BY x DESC"
    many = jobs.build(f"sql --url sqlite:///shop.db --query '{query}' --partition_by id --version 1.0.2 {OPTIONS}")

    assert shards(one.directory) == shards(many.directory) == shards(expected.directory)
    assert one.notices == ["column 'empty' has no value in any row, and was left out", *expected.notices]
    assert len(one.reasons) == len(many.reasons) == len(expected.reasons) == 58  # without a label
    assert one.manifest.input["pattern"] == "sqlite:///shop.db SELECT * FROM orders"
    assert one.manifest.configuration["format"] == "sql"


def test_types_that_disagree_become_what_they_become_of_json(jobs: Jobs) -> None:
    query = "SELECT CASE id % 3 WHEN 0 THEN id WHEN 1 THEN word ELSE x END AS mixed, paid FROM orders"
    with sqlite3.connect("shop.db") as connection:
        lines = [json.dumps({"mixed": mixed, "paid": paid}) + "\n" for mixed, paid in connection.execute(query)]
    expected = jobs.build("jsonl", files={"rows.jsonl": "".join(lines)})
    built = jobs.build(f"sql --url sqlite:///shop.db --query '{query}' --version 1.0.1")

    assert shards(built.directory) == shards(expected.directory)


def test_no_secret_is_written_or_printed(jobs: Jobs, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", f"sqlite:///shop.db?cached_statements={SECRET}")
    printed = []
    for number, url in enumerate(("${SHOP}", f"sqlite:///shop.db?cached_statements={SECRET}")):
        words = ["sql", "--url", url, "--output", "out", "--name", "n"]
        good, bad = "SELECT paid FROM orders", "SELECT nope FROM orders"
        printed += [
            run(*words, "--query", good, "--version", f"1.0.{number}", "--json"),
            run(*words, "--query", good, "--version", "1.1.0", "--dry_run"),
            run(*words, "--query", bad, "--version", "1.1.0"),
            run(*words, "--query", good, "--version", "1.1.0", "--label", "paid", "--only", "nope"),
            run("sql", f"postgresql://me:{SECRET}@host/shop", *words[3:], "--query", good),
            run("sql", f"--ulr=postgresql://me:{SECRET}@host/shop", *words[3:], "--query", good),
        ]
        assert [result.status for result in printed[-6:]] == [0, 0, 2, 2, 2, 2], printed
    files = [path for path in (jobs.folder / "out").rglob("*") if path.is_file()]

    assert len(files) > 20
    assert not any(SECRET.encode() in path.read_bytes() for path in files)
    assert SECRET not in repr(printed)
    assert {found.manifest.input["pattern"] for found in map(shardmill_dataset, ("1.0.0", "1.0.1"))} == {
        "${SHOP} SELECT paid FROM orders",
        "sqlite:///shop.db?cached_statements=*** SELECT paid FROM orders",
    }


def shardmill_dataset(version: str) -> Any:
    from shardmill.reading.dataset import open_dataset

    return open_dataset(f"out/n/{version}")


def test_a_secret_is_not_sent_to_other_machines_nor_written_to_a_recipe(jobs: Jobs) -> None:
    words = f"sql --url sqlite:///shop.db?timeout={SECRET} --query 'SELECT paid FROM orders'"
    beam = "--runner PortableRunner --job_endpoint embed --environment_type EXTERNAL --environment_config localhost:1"
    jobs.refuse(f"{words} {beam}", "--url holds a password, which would be stored with the job; write ${NAME} in its")
    jobs.refuse(f"{words} --write_recipe r.yaml", "--write_recipe r.yaml: --url holds a password, and a recipe would")
    other = "--runner PortableRunner --job_endpoint embed --environment_type DOCKER"
    named = "sql --url sqlite:///shop.db --query 'SELECT paid FROM orders'"
    jobs.refuse(f"{named} {other}", "--url shop.db begins in the folder of this process, where workers of …DOCKER")


def test_mistakes_before_anything_is_written(jobs: Jobs) -> None:
    words = "sql --url sqlite:///shop.db --query"
    jobs.refuse(f"{words} ' ; '", "--query: expected a SELECT")
    jobs.refuse("sql --url shop.db --query x", "--url: not a database URL; expected one such as postgresql://user:")
    jobs.refuse("sql --url sqlite:///no.db --query x", "--url sqlite:///no.db: no such file no.db")
    jobs.refuse("sql --url sqlite:///shop.db?x=1 --query x", "--url sqlite:///shop.db?x=***: …'x' are not accepted")
    jobs.refuse("sql --url sqlite:///shop.db?timeout=abc --query x", "--url …timeout=***: could not convert …: '***'")
    jobs.refuse("sql --url mysql+pymysql://u@h/d?nope=1 --query x", "--url …nope=***: …argument 'nope'")
    jobs.refuse(f"{words} 'SELECT * FROM orders WHERE 0'", "no rows in --query SELECT * FROM orders WHERE 0")
    jobs.refuse(f"{words} 'SELECT * FROM orders' --label nope", "no such column in --query SELECT * FROM orders; the")
    jobs.refuse(f"{words} 'DROP TABLE orders'", "--query: attempt to write a readonly database")


def test_a_dry_run_and_python(jobs: Jobs) -> None:
    options: dict[str, Any] = {"url": "sqlite:///shop.db", "query": "SELECT id, word FROM orders", "output": "o"}
    plan = shardmill.plan("sql", **options, name="n")

    assert "Input: --query SELECT id, word FROM orders: 400 rows\n" in plan.text
    assert "  word: bytes, may be missing\n" in plan.text
    assert not Path("o").exists()
    assert shardmill.convert("sql", **options, name="n").splits == {"train": 400}


def test_each_night_builds(jobs: Jobs, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "shop.db")
    query = "SELECT paid, x FROM orders"
    words = ["sql", "--url", "sqlite:///${SHOP}", "--query", query, "--output", "out", "--name", "n"]
    assert run(*words, "--write_recipe", "r.yaml").status == 0
    assert "url: sqlite:///$${SHOP}\n" in Path("r.yaml").read_text()

    first = shardmill.rebuild("r.yaml")
    second = shardmill.rebuild("r.yaml")
    assert [(night.status, night.record.version) for night in (first, second)] == [
        ("published", "1.0.0"),
        ("published", "1.0.1"),
    ]
    assert second.record.reason == "a query is read in every build"
    assert shards(Path("out/n/1.0.0")) == shards(Path("out/n/1.0.1"))

    recipe = Path("r.yaml").read_text().replace("$${SHOP}", "${SHOP}")
    Path("r.yaml").write_text(f"{recipe}environment: [SHOP]\nfingerprint: content\n")
    assert "fingerprint metadata -> content; a query is read in every" in run("rebuild", "r.yaml", "--dry_run").out
    Path("r.yaml").write_text(f"{recipe}environment: [SHOP]\nfreshness: {{warn_after: 26h}}\n")
    assert "freshness: the rows of a query have no time; leave the section out" in run("rebuild", "r.yaml").err


@pytest.mark.slow
def test_a_module_is_traced_before_the_rows_are_read_again(jobs: Jobs) -> None:
    module = "import tensorflow_transform as tft\ndef preprocessing_fn(x): return {'z': tft.scale_to_z_score(x['x'])}\n"
    Path("m.py").write_text(module)
    words = "sql --url sqlite:///shop.db --query 'SELECT id, x FROM orders' --partition_by id --fill id=0"
    built = jobs.build(f"{words} --module_file m.py --materialize")

    assert sorted(built.examples()[0]) == ["z"]
    assert built.splits == {"train": 400}


def test_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.pipelines.jobs.kind.find_spec", lambda _: None)
    with pytest.raises(shardmill.UserError, match=r"^sql reads databases with SQLAlchemy; .*pip install .*\[sql\]"):
        KINDS["sql"].check_installed()


FUNCTIONS = """
def clean(row, rng):
    if row["paid"]:
        return None
    if row["x"] == 25:
        raise ValueError("twenty-five")
    return [{"x": row["x"], "word": row["word"], "drawn": int(rng.integers(1 << 40)), "part": part} for part in (0, 1)]

def batch(batch):
    import pyarrow.compute as pc
    if pc.any(pc.equal(batch["x"], 25)).as_py():
        raise ValueError("twenty-five")
    return batch.filter(pc.equal(batch["paid"], 0)).select(["x", "word"])
"""


@pytest.mark.parametrize("function", ["map own.py:clean", "map_batches own.py:batch"])
def test_a_function_changes_rows_alike_whatever_the_ranges(function: str, jobs: Jobs) -> None:
    (jobs.folder / "own.py").write_text(FUNCTIONS)
    line = (
        f"sql --{function} --url sqlite:///shop.db --label word --splits train=0.8,test=0.2 --max_reject_fraction 0.5"
    )
    one = jobs.build(f"{line} --query 'SELECT * FROM orders'")
    query = "SELECT * FROM orders ORDER BY x DESC"
    many = jobs.build(f"{line} --query '{query}' --partition_by id --version 1.0.1")

    assert shards(one.directory) == shards(many.directory)
    assert one.notices == many.notices
    assert one.reasons == many.reasons
    expected = {row[2] for row in ROWS if row[1] and not row[4] and row[2] != 25}
    assert {row["x"] for split in one.splits for row in one.examples(split)} == expected
    is_of_rows = function.startswith("map ")
    assert sum(one.splits.values()) == len(expected) * (2 if is_of_rows else 1)
    (raised,) = (row for row, reason in one.reasons.items() if "raises ValueError: twenty-five" in reason)
    assert raised.startswith("{'id': 100, 'word': 'w0', 'x': 25.0, ")
    (left_out,) = (notice for notice in one.notices if "left out" in notice)
    first = " (first: {'id': 1, " if is_of_rows else ""
    assert left_out.startswith(f"--{function} left out 200 of 399 records{first}")


def test_a_recipe_and_python_take_a_function(jobs: Jobs) -> None:
    (jobs.folder / "own.py").write_text(FUNCTIONS)
    query = "SELECT * FROM orders WHERE word IS NOT NULL AND x != 25"
    words = f"sql --map own.py:clean --url sqlite:///shop.db --query '{query}'"
    assert "drawn: int64" in jobs.run(f"{words} --dry_run").out
    assert jobs.run(f"{words} --label word --write_recipe r.yaml").status == 0
    assert jobs._run("rebuild", "r.yaml").status == 0
    assert {row["part"] for row in shardmill.examples(jobs.folder / "out" / "n", "train")} == {0, 1}
    made = shardmill.convert(
        "sql",
        url="sqlite:///shop.db",
        query="SELECT x, paid FROM orders",
        output="out",
        name="p",
        map=lambda row: {"y": 2 * row["x"]},
    )
    assert sorted(row["y"] for row in shardmill.examples(made.directory, "train")) == [row[2] * 2 for row in ROWS]
    reject = "--key x --on_duplicate_key reject --version 2.0.0"
    assert jobs.build(f"{words} {reject} --max_reject_fraction 0.5").splits == {"train": 170}
    jobs.refuse(f"{words.replace('clean', 'gone')} --version 3.0.0", "--map own.py has no function 'gone'")
