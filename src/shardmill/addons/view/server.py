"""The local server of `view`: it serves the page and its JSON to this machine alone, and only with its token."""

import json
import secrets
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shardmill.addons.view.files import Damage
from shardmill.addons.view.pages import PAGE, Opened, mask_overlay
from shardmill.errors import UserError

_POLICY = (
    "default-src 'none'; script-src 'nonce-{}'; style-src 'nonce-{}'; img-src 'self' data:; media-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {}"
)
_FAILURES = (UserError, OSError, ValueError, KeyError, IndexError)


class ViewServer:
    """A server of one or two data sets on 127.0.0.1; `url` has the token that every request needs."""

    def __init__(self, opened: list[Opened], port: int = 0, in_notebook: bool = False) -> None:
        """Bind to a port; 0 for any that is free."""
        self.opened, self.token = opened, secrets.token_urlsafe(24)
        self._frames = "http://localhost:* http://127.0.0.1:*" if in_notebook else "'none'"
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.view = self
        self.port = self._server.server_address[1]
        self._stopping = threading.Event()

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def start(self) -> None:
        """Serve in a thread, and find the positions of all records in another."""
        threading.Thread(target=self._server.serve_forever, name="shardmill-view", daemon=True).start()
        threading.Thread(target=self._index, name="shardmill-index", daemon=True).start()

    def stop(self) -> None:
        """End all threads."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def _index(self) -> None:
        for opened in self.opened:
            for shard in opened.found.shards:
                for _ in shard.scan() if shard.records is None else ():
                    if self._stopping.is_set():
                        return

    def page(self) -> tuple[bytes, str]:
        """Return the page and its Content-Security-Policy."""
        nonce = secrets.token_urlsafe(16)
        text = (files("shardmill.addons.view") / "page.html").read_text("utf-8")
        return text.replace("NONCE", nonce).encode(), _POLICY.format(nonce, nonce, self._frames)

    def answer(self, name: str, query: Mapping[str, str]) -> tuple[bytes, str]:
        """Return the answer to a request, and its type."""
        opened = self.opened[int(query.get("side", 0))]
        split, number = query.get("split", ""), int(query.get("number", 0))
        if name == "media":
            data, kind = opened.media(split, number, query["name"], int(query.get("at", 0)))
            return (mask_overlay(data), "image/png") if query.get("mask") else (data, kind)
        content: Any = None
        if name == "info":
            content = [one.describe() for one in self.opened]
        elif name == "examples":
            content = {"examples": (found := opened.read(split, number, PAGE)), "next": number + len(found)}
            content["next"] = None if len(found) < PAGE else content["next"]
        elif name == "search":
            content = opened.search(split, query.get("name", ""), query["how"], query["wanted"], number)
        elif name == "sort":
            content = opened.sort(split, query.get("name", ""), query.get("descending") == "1", number)
        elif name == "one":
            content = opened.one(split, number)
        elif name == "find":
            content = find_by_name(opened, split, query["wanted"])
        if content is None:
            raise KeyError(name)
        return json.dumps(content).encode(), "application/json"


def find_by_name(opened: Opened, split: str, wanted: str) -> dict[str, Any]:
    """Return the number of the first example whose record has `wanted`, such as a file name, in its bytes."""
    end = wanted.encode()
    for number, _, _, record in opened.found.select(split or None).read(0, 1 << 60):
        if not isinstance(record, Damage) and end in record:
            return {"number": number}
    raise UserError(f"no example has {wanted!r} in its values")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    view: ViewServer


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # the name in the base class
        """Log nothing: addresses have the token."""

    def do_GET(self) -> None:
        """Answer a request that has the token, and that this machine addressed by its own name."""
        view = self.server.view
        parts = urlsplit(self.path)
        hosts = (f"127.0.0.1:{view.port}", f"localhost:{view.port}")
        if self.headers.get("Host") not in hosts:
            return self._send(403, b"this server answers 127.0.0.1 only", "text/plain")
        _, token, *rest = parts.path.split("/", 2)
        if not secrets.compare_digest(token.encode(), view.token.encode()) or not rest:
            return self._send(404, b"no such page", "text/plain")
        if rest[0] == "":
            text, policy = view.page()
            return self._send(200, text, "text/html; charset=utf-8", policy)
        try:
            data, kind = view.answer(rest[0], {key: values[0] for key, values in parse_qs(parts.query, True).items()})
        except _FAILURES as error:
            text = json.dumps({"error": str(error) or type(error).__name__}).encode()
            return self._send(400, text, "application/json")
        return self._send(200, data, kind)

    def _send(self, status: int, data: bytes, kind: str, policy: str = "default-src 'none'; sandbox") -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(data))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
