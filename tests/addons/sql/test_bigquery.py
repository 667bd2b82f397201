"""`shardmill bigquery` against a server that answers as BigQuery's REST API: the requests, the rows, the mistakes.

No real project was used.
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from apache_beam.internal.gcp import auth
from apache_beam.io.gcp.internal.clients import bigquery as clients

import shardmill
from tests.addons.sql.bigquery_server import NO_SUCH, BigQuery, serve
from tests.support.buckets import GoogleBucket
from tests.support.jobs import Jobs

# The schema that BigQuery gives an export: https://cloud.google.com/bigquery/docs/exporting-data#avro_export_details
FIELDS: dict[str, Any] = {
    "id": "long",
    "paid": "boolean",
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    "weight": "double",
    "city": "string",
    "data": "bytes",
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "string", "sqlType": "DATETIME"},
    "opens": {"type": "long", "logicalType": "time-micros"},
}
AVRO = {
    "type": "record",
    "name": "Root",
    "fields": [
        *({"name": name, "type": ["null", kind]} for name, kind in FIELDS.items()),
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "place",
            "type": [
                "null",
                {
                    "type": "record",
                    "namespace": "root",
                    "name": "Place",
                    "fields": [{"name": "x", "type": ["null", "long"]}],
                },
            ],
        },
    ],
}
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "paid": number % 2 == 0,
        "price": Decimal("12.5"),
        "weight": number / 4,
        "city": f"city {number % 3}" if number % 5 else None,
        "data": bytes([number, 0]),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 1, 2, 3, 7, UTC),
        "local": "2024-02-29T01:02:03",
        "opens": time(8, 30),
        "tags": ["a"] * (number % 3),
        "place": {"x": number} if number % 4 else None,
    }
    for number in range(60)
]
PAGE = "https://cloud.google.com/bigquery"


@pytest.fixture(scope="module")
def bucket(gs_endpoint: tuple[str, dict[str, str]]) -> GoogleBucket:
    return GoogleBucket("bigquery-exports", *gs_endpoint)


@pytest.fixture
def server(bucket: GoogleBucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[BigQuery]:
    def put(url: str, data: bytes) -> None:
        bucket.put(url.removeprefix(f"{bucket.url}/"), data)

    with serve(BigQuery(AVRO, ROWS, put)) as found:
        monkeypatch.setattr(clients.BigqueryV2, "BASE_URL", found.url)
        none_yet = {"_credentials_init": False, "_credentials": None}  # an earlier test may have found none
        monkeypatch.setattr(auth, "_Credentials", type("Credentials", (auth._Credentials,), none_yet))
        yield found


def beam(bucket: GoogleBucket) -> str:
    return f"--project shop-1 --temp_location {bucket.url}/tmp"


def as_json(value: Any) -> Any:
    """A value as JSON lines would have it: times, decimals and bytes as the text that shardmill makes of them."""
    if isinstance(value, Decimal):
        return f"{value:.9f}"
    if isinstance(value, datetime):
        return "2024-02-29 01:02:03.000007Z"
    if isinstance(value, time):
        return value.isoformat("microseconds")
    return str(value) if isinstance(value, date) else value


def shards(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.tfrecord-*")}


def test_a_query_is_exported_read_and_cleaned_up(server: BigQuery, bucket: GoogleBucket, jobs: Jobs) -> None:
    query = "SELECT * FROM shop.orders"
    options = "--drop data --flatten --label city --splits train=0.8,test=0.2 --max_reject_fraction 0.5"
    lines = [json.dumps({key: as_json(value) for key, value in row.items() if key != "data"}) + "\n" for row in ROWS]
    expected = jobs.build(f"jsonl {options}", files={"rows.jsonl": "".join(lines)})
    built = jobs.build(f"bigquery --query '{query};' --version 1.0.1 {options} {beam(bucket)}")

    assert shards(built.directory) == shards(expected.directory)
    assert built.manifest.input["pattern"] == f"bigquery {query}"
    assert built.manifest.configuration["format"] == "bigquery"
    bodies = [body["configuration"] for verb, path, body in server.requests if (verb, path[-4:]) == ("POST", "jobs")]
    tried = [body for body in bodies if body.get("dryRun")]
    run, extracted = (body for body in bodies if not body.get("dryRun"))
    assert {(body["query"]["query"], body["query"]["useLegacySql"]) for body in (run, *tried)} == {(query, False)}
    assert (run["query"]["flattenResults"], run["query"]["allowLargeResults"]) == (False, True)
    assert extracted["extract"]["destinationFormat"] == "AVRO"
    assert extracted["extract"]["useAvroLogicalTypes"] is True
    assert extracted["extract"]["destinationUris"][0].startswith(f"{bucket.url}/tmp/")
    assert run["query"]["destinationTable"] == extracted["extract"]["sourceTable"]
    assert run["query"]["destinationTable"]["datasetId"].startswith("beam_temp_dataset_")
    assert {path.split("/")[4] for _, path, _ in server.requests} == {"shop-1"}
    assert server.datasets == set()
    assert bucket.names("tmp") == []


def test_a_table_and_a_dataset_of_ones_own(server: BigQuery, bucket: GoogleBucket, jobs: Jobs) -> None:
    chosen = "--json_columns place --only id,data,tags,place,at,local,day"
    times = "--timestamp at=us --timestamp local=s --timestamp day=s"
    table = jobs.build(f"bigquery --table other-2.shop.orders {chosen} {times} {beam(bucket)}")
    (extract,) = [body["configuration"]["extract"] for method, _, body in server.requests if method == "POST"]

    assert extract["sourceTable"] == {"projectId": "other-2", "datasetId": "shop", "tableId": "orders"}
    found = {row["id"]: row for row in table.examples()}
    assert sorted(found) == [*range(60)]
    assert found[5]["data"] == b"\x05\x00"
    second = int(datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC).timestamp())
    assert [found[5][name] for name in ("at", "local", "day")] == [second * 1_000_000 + 7, second, second - 3723]
    assert found[5]["place"] == b'{"x":5}'
    assert [bytes(tag) for tag in found[5]["tags"]] == [b"a", b"a"]

    server.requests.clear()
    server.datasets.add("scratch")
    jobs.build(f"bigquery --query 'SELECT 1' --temp_dataset scratch --only id --version 1.0.1 {beam(bucket)}")
    (run,) = [
        body["configuration"]["query"]
        for _, _, body in server.requests
        if body and "query" in body.get("configuration", {}) and not body["configuration"].get("dryRun")
    ]
    assert (run["destinationTable"]["projectId"], run["destinationTable"]["datasetId"]) == ("shop-1", "scratch")
    assert server.datasets == {"scratch"}


def test_a_function_gets_nested_rows_with_texts_of_decimals(server: BigQuery, bucket: GoogleBucket, jobs: Jobs) -> None:
    (jobs.folder / "own.py").write_text(
        "names = ('price', 'place', 'tags', 'day', 'city')\n"
        "def shown(row):\n"
        "    if row['id'] % 2:\n"
        "        return None\n"
        "    return {'id': row['id'], 'shown': repr([row[name] for name in names])}\n"
    )
    made = jobs.build(f"bigquery --table shop.orders --map own.py:shown {beam(bucket)}")
    found = {row["id"]: row["shown"].decode() for row in made.examples()}
    assert sorted(found) == [*range(0, 60, 2)]
    assert found[2] == "['12.500000000', {'x': 2}, ['a', 'a'], '2024-02-29', 'city 2']"
    assert found[20] == "['12.500000000', None, ['a', 'a'], '2024-02-29', None]"


def test_python_and_each_night(server: BigQuery, bucket: GoogleBucket, jobs: Jobs) -> None:
    flags = beam(bucket).split()
    made = shardmill.convert("bigquery", table="shop.orders", only="id", output="o", name="n", beam_options=flags)
    assert made.splits == {"train": 60}
    section = f"beam: {{project: shop-1, temp_location: {bucket.url}/tmp}}\n"
    Path("r.yaml").write_text(
        f"name: n\noutput: o\nbigquery:\n  query: SELECT * FROM shop.orders\n  only: id\n{section}"
    )
    night = shardmill.rebuild("r.yaml")
    assert (night.status, night.record.version) == ("published", "1.0.1")
    assert "a query is read in every build" in str(night.record.reason) or "1.0.0 was made from" in night.record.reason
    assert shards(Path("o/n/1.0.0")) == shards(Path("o/n/1.0.1"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--project shop-1", "give --query, a SELECT, or --table, and not both"),
        ("--query x --table a.b", "give --query, a SELECT, or --table, and not both"),
        ("--table a.b --temp_dataset c", "--temp_dataset is for the result of --query, and --table has none"),
        ("--table orders", "--table: 'orders': expected PROJECT.DATASET.TABLE or DATASET.TABLE"),
        ("--query x --temp_dataset a/b", "--temp_dataset: 'a/b': expected PROJECT.DATASET or DATASET"),
        ("--query ;", "--query: expected a SELECT"),
        ("--query x", "bigquery: no --project; expected the id of the project that pays for the query"),
        ("--query x --project shop-1", "bigquery: no --temp_location; expected a folder of a bucket such as gs://"),
        ("--query x --project shop-1 --temp_location /tmp/x", "bigquery: no --temp_location; expected a folder of a"),
        ("--query bad --project shop-1 --temp_location gs://b/t", "--query: BigQuery answers with status 400: Syntax"),
        ("--table shop.nope --project shop-1 --temp_location gs://b/t", f"--table: BigQuery answers …404: {NO_SUCH}"),
    ],
)
def test_a_mistake_before_anything_is_written(server: BigQuery, jobs: Jobs, words: str, sentence: str) -> None:
    server.refused = {'"query": "bad"': (400, 'Syntax error: Unexpected identifier\n"bad"'), "nope": (404, NO_SUCH)}
    jobs.refuse(f"bigquery {words}", sentence)


def test_an_export_that_is_refused_or_fails(server: BigQuery, bucket: GoogleBucket, jobs: Jobs) -> None:
    reason = 'Access Denied: Permission "storage.objects.create" denied'
    server.refused = {'"extract"': (403, reason)}
    jobs.fail(f"bigquery --table shop.orders {beam(bucket)}", f"error: the job failed: Google answers: {reason}\n")
    server.refused, server.failure = {}, reason
    jobs.fail(f"bigquery --table shop.orders {beam(bucket)}", f"error: the job failed: Google answers: {reason}\n")


def test_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from shardmill.pipelines.jobs.registry import KINDS

    monkeypatch.setattr("shardmill.pipelines.jobs.kind.find_spec", lambda _: None)
    with pytest.raises(shardmill.UserError, match=r"^bigquery reads with Google's clients; .*pip install .*\[gcp\]"):
        KINDS["bigquery"].check_installed()
