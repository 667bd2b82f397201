"""A server that answers as BigQuery's REST API does what ReadFromBigQuery asks, and keeps the requests.

Source of the answers: https://cloud.google.com/bigquery/docs/reference/rest. A query has always the same rows. An
extraction writes them to a bucket as an Avro file, as BigQuery does with `useAvroLogicalTypes`.
"""

import io
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro

NO_SUCH = "Not found: Table shop-1:shop.nope was not found in location EU"


@dataclass
class BigQuery:
    """The tables of the server, its answers, and the requests that it got."""

    avro_schema: dict[str, Any]
    rows: Sequence[dict[str, Any]]
    put: Callable[[str, bytes], None]  # (URL of an object, its bytes)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)  # (method, path, body)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)  # (status, message) by words in a request
    failure: str = ""  # of each job that has begun; "" for none
    datasets: set[str] = field(default_factory=set)
    url: str = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        self.requests.append((method, path, body))
        text = f"{method} {path} {json.dumps(body)}"
        for words, (status, message) in self.refused.items():
            if words in text:
                return status, {"error": {"code": status, "message": message, "errors": [{"reason": "refused"}]}}
        if method == "POST" and path.endswith("/jobs"):
            return 200, self._start_job(body)
        if "/jobs/" in path:
            failed = {"errorResult": {"reason": "accessDenied", "message": self.failure}} if self.failure else {}
            state = {"state": "DONE", **failed}
            return 200, {"id": path, "jobReference": _job(path), "status": state, "statistics": {}}
        if method == "POST" and path.endswith("/datasets"):
            self.datasets.add(body["datasetReference"]["datasetId"])
            return 200, body
        names = re.search(r"/datasets/([^/]+)(?:/tables/([^/]+))?", path)
        if names is None:
            return 400, {"error": {"code": 400, "message": f"no answer to {text}"}}
        if method == "DELETE":
            self.datasets.discard(names[1] if names[2] is None else "")
            return 204, None
        if names[2] is None and names[1] not in self.datasets:
            return 404, {"error": {"code": 404, "message": f"Not found: Dataset shop-1:{names[1]}"}}
        return 200, {"id": path, "schema": {"fields": []}, "location": "EU", "numBytes": "1", "numRows": "1"}

    def _start_job(self, body: Any) -> dict[str, Any]:
        configuration = body["configuration"]
        if "extract" in configuration:
            (uri,) = configuration["extract"]["destinationUris"]
            for number in range(2):
                data = io.BytesIO()
                fastavro.writer(data, self.avro_schema, self.rows[number::2])
                self.put(uri.replace("*", f"{number:012}"), data.getvalue())
        used = [{"projectId": "shop-1", "datasetId": "shop", "tableId": "orders"}]
        statistics = {"totalBytesProcessed": "1", "query": {"referencedTables": used}}
        job = {**body["jobReference"], "location": "EU"}
        return {"id": "x", "jobReference": job, "status": {"state": "DONE"}, "statistics": statistics}


def _job(path: str) -> dict[str, str]:
    project, job = re.findall(r"/projects/([^/]+)/jobs/([^/?]+)", path)[0]
    return {"projectId": project, "jobId": job, "location": "EU"}


@contextmanager
def serve(bigquery: BigQuery) -> Iterator[BigQuery]:
    """Serve on a free port, whose URL is then that of `bigquery`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            status, answer = bigquery.answer(
                self.command, self.path.partition("?")[0], json.loads(content) if content else None
            )
            data = b"" if answer is None else json.dumps(answer, indent=2).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bigquery.url = f"http://127.0.0.1:{server.server_port}/bigquery/v2/"
        yield bigquery
        server.shutdown()
