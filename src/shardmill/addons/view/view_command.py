"""`shardmill view`: look into a data set or any TFRecord files in a browser."""

import hashlib
import os
import posixpath
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import sleep
from typing import Any

from shardmill.addons.registry import find_or_open
from shardmill.addons.view.files import RecordFiles, files_of
from shardmill.addons.view.foreign import Foreign
from shardmill.addons.view.inspection import take_sample
from shardmill.addons.view.pages import Opened
from shardmill.addons.view.server import ViewServer
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Paths, read_if_exists
from shardmill.metadata import file_names
from shardmill.pipelines.commands.frame import (
    FILES_HELP,
    STORE_OPTIONS,
    Command,
    add_directory,
    list_paths,
    parse_here,
    reach_paths,
    report_read_errors,
)
from shardmill.pipelines.config.flags import Parser
from shardmill.pipelines.reports import log
from shardmill.reading.dataset import Dataset
from shardmill.transforms.publishing.catalog import open_version

_MOST_REJECTS = 1_000  # that the page lists


def _add_arguments(parser: Parser) -> None:
    add_directory(parser, FILES_HELP, nargs="+")
    parser.add_argument("--against", metavar="PATH", help="Another version, or other files, to show side by side")
    parser.add_argument("--port", metavar="INT", type=int, default=0, help="Port of the page (default: any free one)")
    parser.add_argument("--no_browser", action="store_true", help="Print the address, and open no browser")


def _run(parser: Parser, arguments: Sequence[str]) -> int:
    args = parse_here(parser, arguments, lambda args: list_paths(args.directory))
    server = open_view(args.directory, args.against, args.port)
    log.print_output(f"{server.url}\nPress Ctrl-C to end.")
    if not args.no_browser:
        webbrowser.open(server.url)
    try:
        while True:
            sleep(3600)
    except KeyboardInterrupt:
        server.stop()
    return 0


COMMANDS = (
    Command(
        name="view",
        description="Look into a data set, or any TFRecord files, in a browser: a page on this machine alone, which"
        " writes nothing and loads nothing from elsewhere.",
        epilog=f"{STORE_OPTIONS} Ctrl-C ends it. Exit status: 0 done; 2 a mistake in a flag, or nothing to show.",
        examples=("datasets/flowers", "'other/*.tfrecord' --no_browser --port 8765"),
        add_arguments=_add_arguments,
        run=_run,
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class View:
    """A page that a notebook shows inline.

    Attributes:
        url: address of the page; it has a random token.
        stop: ends its server.
    """

    url: str
    stop: Callable[[], None]

    def __repr__(self) -> str:
        return self.url

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" title="shardmill view" width="100%" height="720"></iframe>'


def view(
    directory: Paths, *, against: str | os.PathLike[str] | None = None, port: int = 0, beam_options: Sequence[str] = ()
) -> View:
    """Look into a data set or any TFRecord files, on a page that a notebook shows inline.

    Args:
        directory: folder of a version, or of its data set; or TFRecord files.
        against: another version, or other files, to show side by side.
        port: port of the page; 0 for any free one.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The page. Its server runs until `stop()` is called, or Python ends.

    Raises:
        UserError: there is nothing to show at a path, or the port is taken.
    """
    with reach_paths("view", beam_options, *list_paths(directory)):
        server = open_view(directory, None if against is None else os.fspath(against), port, in_notebook=True)
    return View(server.url, server.stop)


def open_view(path: Paths, against: str | None, port: int, in_notebook: bool = False) -> ViewServer:
    """Open data sets, and start the server of their page."""
    opened = [_open(one) for one in ([path] if against is None else [path, against])]
    try:
        server = ViewServer(opened, port, in_notebook)
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: {getattr(error, 'strerror', None) or error}") from None
    server.start()
    return server


def _open(path: Paths) -> Opened:
    with report_read_errors(path):
        found = find_or_open(path, open_version)
        if isinstance(found, Dataset):
            return _open_dataset(found)
    assert isinstance(found, Foreign)
    sample = take_sample(found.found, 0)
    features = {feature.name: feature for feature in sample.features}
    return Opened(" ".join(list_paths(path)), found.found, features, sample)


def _open_dataset(dataset: Dataset) -> Opened:
    manifest = dataset.manifest
    found = files_of(dataset, manifest.splits)
    sample = take_sample(RecordFiles(dataset.directory, found.shards, (dataset.directory,), manifest.features), 0)
    facts: dict[str, Any] = {
        "notices": list(manifest.notices),
        "rejects": {"records": manifest.rejects.get("records", 0), "reasons": manifest.rejects.get("reasons", {})},
        "reject_lines": _read_rejects(dataset),
    }
    with suppress(FileNotFoundError, CorruptDataError, KeyError):
        facts["classes"] = {
            name: {split: dict(entry.features[name].classes or {}) for split, entry in dataset.stats().splits.items()}
            for name in (feature.name for feature in manifest.features if feature.kind == "class_label")
        }
    title = f"{manifest.name} {manifest.version}"
    opened = Opened(title, found, {feature.name: feature for feature in manifest.features}, sample, facts)
    opened.tokenizer = _load_tokenizer(dataset)
    return opened


def _read_rejects(dataset: Dataset) -> list[str]:
    """Return the first lines of the version's files of rejects."""
    lines: list[str] = []
    for name in sorted(dataset.manifest.files):
        if name.startswith(f"{file_names.REJECTS_DIR}/") or name.endswith(file_names.REJECTS_FILE):
            with suppress(FileNotFoundError, CorruptDataError, UnicodeDecodeError):
                for line in dataset.lines(name):
                    lines.append(line)
                    if len(lines) >= _MOST_REJECTS:
                        return lines
    return lines


def _load_tokenizer(dataset: Dataset) -> Callable[[Any], str] | None:
    """Return what decodes token ids, if the file of --tokenizer lies unchanged in the version's folder or above it."""
    given: Any = dataset.manifest.configuration.get("tokenizer")
    folders = (dataset.directory, posixpath.dirname(dataset.directory.rstrip("/"))) if isinstance(given, dict) else ()
    with suppress(ImportError):
        from tokenizers import Tokenizer

        for path in (posixpath.join(folder, str(given["name"])) for folder in folders):
            data = read_if_exists(dataset.files, path) or b""
            if hashlib.sha256(data).hexdigest() == given["sha256"]:
                tokenizer = Tokenizer.from_str(data.decode())
                return lambda values: str(tokenizer.decode([int(value) for value in values]))
    return None
