"""Write messages to stderr, as sentences or as one JSON object a line."""

import json
import logging
import os
import sys
import time
from typing import Any

from shardmill.errors import LINE_BREAK, JobError
from shardmill.metadata.versions import BuildRecord, describe_comparison
from shardmill.text import fit_terminal, mask_urls, to_printable

LOG = logging.getLogger("shardmill")
LOG.addHandler(logging.NullHandler())  # used from Python, warnings go where the caller logs, or nowhere
_WORDS = {logging.WARNING: "warning: ", logging.ERROR: "error: "}


class _Stderr(logging.StreamHandler[Any]):
    """A handler that writes to the current sys.stderr, which a test or notebook may have replaced."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


class _Sentences(logging.Formatter):
    """A formatter of lines such as `shardmill: error: …`; progress lines have no such beginning."""

    def format(self, record: logging.LogRecord) -> str:
        lines = record.getMessage().split(LINE_BREAK) if record.levelno == logging.ERROR else [record.getMessage()]
        message = LINE_BREAK.join(map(to_printable, lines))
        if getattr(record, "bare", False):
            return message
        return fit_terminal(f"shardmill: {_WORDS.get(record.levelno, '')}{message}", sys.stderr)


class _Json(logging.Formatter):
    """A formatter of log records as JSON lines, with the fields of Google Cloud's logging agent and most others."""

    def format(self, record: logging.LogRecord) -> str:
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"
        told = {"severity": record.levelname, "message": record.getMessage(), "time": moment, "logger": record.name}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(mask_urls(told | getattr(record, "told", {})), ensure_ascii=False)


_handler = _Stderr()


def set_up(log_format: str = "text", quiet: bool = False) -> None:
    """Set the format of all messages; `json` also formats what libraries log.

    Messages go through Python's logger `shardmill`, so callers of `shardmill.convert` get them where they log
    everything else. Only the command line calls this.
    """
    root = logging.getLogger()
    for logger in (root, LOG):
        logger.removeHandler(_handler)
    as_json = log_format == "json"
    _handler.setFormatter(_Json() if as_json else _Sentences())
    (root if as_json else LOG).addHandler(_handler)
    LOG.propagate = as_json
    LOG.setLevel(logging.WARNING if quiet else logging.INFO)


def is_json() -> bool:
    """Return True if messages are JSON lines, between which nothing may be drawn."""
    return isinstance(_handler.formatter, _Json) and _handler in logging.getLogger().handlers


def info(message: str, **fields: Any) -> None:
    """Log a message for the user; `fields` are further fields of its JSON."""
    LOG.info("%s", mask_urls(message), extra={"told": fields})


def print_result(text: str, **fields: Any) -> None:
    """Print a command's result on stdout, or log it as a JSON line if messages are JSON."""
    if is_json():
        info(text, **fields)
    else:
        print_output("\n".join(map(to_printable, text.split("\n"))))


def print_output(text: str, end: str = "\n") -> None:
    """Print on stdout; raise JobError if it cannot be written, and BrokenPipeError if nobody reads it."""
    try:
        print(fit_terminal(text, sys.stdout), end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where what is left in its buffer goes
        raise JobError(f"standard output cannot be written: {error.strerror}") from None


def print_done(text: str, done: str) -> None:
    """Print what tells of work that is done. If stdout cannot be written, warn, and say that the work is `done`."""
    try:
        print_output(text)
    except JobError as error:
        warn(f"{error}; {done}")


def log_progress(message: str) -> None:
    """Log a line of progress; print it on stderr if nobody has set up logging, as in a script."""
    if LOG.isEnabledFor(logging.INFO):
        LOG.info("%s", mask_urls(message), extra={"bare": True})
    else:
        print(to_printable(message), file=sys.stderr, flush=True)


def warn(message: str, **fields: Any) -> None:
    """Log a warning."""
    LOG.warning("%s", mask_urls(message), extra={"told": fields})


def error(message: str, **fields: Any) -> None:
    """Log the error that ends a command."""
    LOG.error("%s", message, extra={"told": fields})


def published_line(record: BuildRecord) -> str:
    """Return a log line on a published version: its examples, the baseline of its checks, and the build time."""
    counts = ", ".join(f"{examples:,} in {split}" for split, examples in record.splits.items())
    rejected = f"; {record.rejected:,} rejected" if record.rejected else ""
    parts = [
        f"{record.name} {record.version} is published: {counts or 'no examples'}{rejected}",
        describe_comparison(record.version, record.baseline),
        f"{record.seconds:.0f} s",
    ]
    return "; ".join(filter(None, parts))
