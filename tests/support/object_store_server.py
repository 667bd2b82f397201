"""Object stores on loopback, each a process: `python object_store_server.py gs|s3 PORT`.

Around the emulators of two packages this adds what tests ask: `GET /requests` tells, and forgets, the requests since it
was last asked, with how many reads of objects were under way at once; every such read takes a moment, as it does on a
real store. `GET /older?bucket=…&prefix=…&seconds=…` lets objects be as if they had been written so much earlier;
`GET /objects?bucket=…&prefix=…` gives all that a prefix has, and `POST /objects?bucket=…&prefix=…` puts some below one,
each as one request, which is not recorded: pickles of bytes by name.
"""

import json
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

READ_SECONDS = 0.02


# An object with one of these in its name cannot be read: status 403, because of the object or because of who asks
FORBIDDEN, OF_THE_CALLER = "forbidden", "not-by-you"
REASONS = {"gs": ("forbidden", "rateLimitExceeded"), "s3": ("AccessDenied", "InvalidAccessKeyId")}


def refusal(kind: str, path: str) -> str | None:
    """The store's word for why the object of a request's path may not be read; None for one that may."""
    found = (reason for part, reason in zip((FORBIDDEN, OF_THE_CALLER), REASONS[kind], strict=True) if part in path)
    return next(found, None)


class PreconditionFailedError(Exception):
    """An object is not of the generation that a request wants to replace or delete."""


class Requests:
    """What was asked of the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[str] = []
        self._reading = self._most = 0

    @contextmanager
    def record(self, method: str, path: str, reads: bool) -> Any:
        with self._lock:
            self._seen.append(f"{method} {path}")
            self._reading += reads
            self._most = max(self._most, self._reading)
        try:
            if reads:
                time.sleep(READ_SECONDS)
            yield
        finally:
            with self._lock:
                self._reading -= reads

    def take(self) -> bytes:
        with self._lock:
            answer = json.dumps({"requests": self._seen, "reads_at_once": self._most})
            self._seen, self._most = [], 0
        return answer.encode()


def _older(query: str) -> tuple[str, str, timedelta]:
    """Bucket, prefix and time of a request that objects be older."""
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    return asked["bucket"], asked.get("prefix", ""), timedelta(seconds=float(asked["seconds"]))


def _asked(query: str) -> tuple[str, str]:
    """Bucket and prefix of a request for objects."""
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    return asked["bucket"], asked.get("prefix", "")


def serve_gs(port: int) -> None:
    """Google Cloud Storage; `/token` gives whoever asks a token."""
    from gcp_storage_emulator.exceptions import NotFound
    from gcp_storage_emulator.handlers.objects import _checksums, _make_object_resource
    from gcp_storage_emulator.server import RequestHandler
    from gcp_storage_emulator.storage import Storage

    requests = Requests()
    lock = threading.Lock()  # the emulator is made for one thread

    class Memory(Storage):
        """The emulator's storage with the condition that it knows nothing of: the generation of what is replaced or
        deleted, 0 of what is not there."""

        wanted: str | None = None

        def _write_config_to_file(self) -> None:
            """Spare it: it would describe all objects again at each write."""

        def create_file(self, bucket_name: str, file_name: str, *arguments: Any, **more: Any) -> None:
            self._check(bucket_name, file_name)
            super().create_file(bucket_name, file_name, *arguments, **more)

        def delete_file(self, bucket_name: str, file_name: str) -> None:
            self._check(bucket_name, file_name)
            super().delete_file(bucket_name, file_name)

        def _check(self, bucket_name: str, file_name: str) -> None:
            try:
                found = self.get_file_obj(bucket_name, file_name)["generation"]
            except NotFound:
                found = "0"
            if self.wanted not in (None, found):
                raise PreconditionFailedError

    memory = Memory(use_memory_fs=True)

    class Handler(RequestHandler):
        def _answer(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @contextmanager
        def _condition(self) -> Iterator[None]:
            """Requests with a condition that does not hold are answered with status 412."""
            memory.wanted = parse_qs(urlsplit(self.path).query).get("ifGenerationMatch", [None])[0]
            try:
                yield
            except PreconditionFailedError:
                self.send_response(412)
                self.send_header("Content-Length", "0")
                self.end_headers()
            finally:
                memory.wanted = None

        def do_GET(self) -> None:
            if self.path == "/requests":
                self._answer(requests.take())
                return
            if self.path.startswith("/older?"):
                bucket, prefix, time = _older(urlsplit(self.path).query)
                for name, item in memory.objects[bucket].items():
                    if name.startswith(prefix):
                        moment = datetime.fromisoformat(item["updated"]) - time
                        item["updated"] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                self._answer(b"{}")
                return
            if self.path.startswith("/objects?"):
                bucket, prefix = _asked(urlsplit(self.path).query)
                with lock:
                    names = sorted(name for name in memory.objects.get(bucket, ()) if name.startswith(prefix))
                    found = {name: memory.get_file(bucket, name) for name in names}
                self._answer(pickle.dumps(found))
                return
            if reason := refusal("gs", urlsplit(self.path).path):
                error = {"code": 403, "message": reason, "errors": [{"reason": reason, "message": reason}]}
                self._answer(json.dumps({"error": error}).encode(), 403)
                return
            with requests.record("GET", self.path, self.path.startswith("/download/")), lock:
                super().do_GET()

        def do_POST(self) -> None:
            if self.path == "/token":
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(b'{"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"}')
                return
            if self.path.startswith("/objects?"):
                bucket, prefix = _asked(urlsplit(self.path).query)
                base = f"http://{self.headers['Host']}"
                with lock:
                    for name, data in pickle.loads(self.rfile.read(int(self.headers["Content-Length"]))).items():
                        made = _make_object_resource(base, bucket, prefix + name, "image/jpeg", str(len(data)))
                        memory.create_file(bucket, prefix + name, data, _checksums(data, made))
                self._answer(b"")
                return
            with requests.record("POST", self.path, False), lock, self._condition():
                super().do_POST()

        def do_PUT(self) -> None:
            with requests.record("PUT", self.path, False), lock:
                super().do_PUT()

        def do_DELETE(self) -> None:
            with requests.record("DELETE", self.path, False), lock, self._condition():
                super().do_DELETE()

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

    Server(("127.0.0.1", port), partial(Handler, memory)).serve_forever()


def serve_s3(port: int) -> None:
    """S3."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.moto_server.werkzeug_app import create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import run_simple

    requests = Requests()
    backend = create_backend_app("s3")  # not what finds the service first, among 175 folders of moto's for each request
    lock = threading.Lock()  # the emulator looks whether a condition holds first, and writes then

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == "/requests":
            start_response("200 OK", [("Content-Type", "application/json")])
            return [requests.take()]
        if method in ("GET", "HEAD") and (reason := refusal("s3", path)):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"" if method == "HEAD" else f"<Error><Code>{reason}</Code></Error>".encode()]
        query = environ.get("QUERY_STRING", "")
        if path == "/older":
            bucket, prefix, time = _older(query)
            for name, key in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys.items():
                if name.startswith(prefix):
                    key.last_modified -= time
            start_response("200 OK", [])
            return [b"{}"]
        if path == "/objects":
            bucket, prefix = _asked(query)
            start_response("200 OK", [])
            if method == "POST":
                for name, data in pickle.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))).items():
                    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, prefix + name, data)
                return [b""]
            keys = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys
            return [pickle.dumps({name: keys[name].value for name in sorted(keys) if name.startswith(prefix)})]
        reads = method == "GET" and path.count("/") > 1 and "list-type" not in query
        conditional = method in ("PUT", "DELETE") and ("HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ)
        with requests.record(method, f"{path}?{query}", reads), lock if conditional else nullcontext():
            return backend(environ, start_response)

    run_simple("127.0.0.1", port, application, threaded=True)


if __name__ == "__main__":
    {"gs": serve_gs, "s3": serve_s3}[sys.argv[1]](int(sys.argv[2]))
