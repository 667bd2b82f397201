"""What is said on stderr: sentences for people, or a JSON object a line for the logs of clusters and clouds.

The lines go through Python's logging, as `shardmill`: who calls `shardmill.convert` has them where all else is logged.
The command line says how they look.
"""

import json
import logging
import sys
import time
from typing import Any

from shardmill.printable import printable

LOG = logging.getLogger("shardmill")
_WORDS = {logging.WARNING: "warning: ", logging.ERROR: "error: "}


class _Stderr(logging.StreamHandler[Any]):
    """To sys.stderr as it is when something is said, for a test or a notebook may have put another there."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        """Where the lines go."""
        return sys.stderr


class _Sentences(logging.Formatter):
    """`shardmill: error: …`; a line of progress begins with what is built."""

    def format(self, record: logging.LogRecord) -> str:
        message = printable(record.getMessage())
        if getattr(record, "bare", False):
            return message
        return f"shardmill: {_WORDS.get(record.levelno, '')}{message}"


class _Json(logging.Formatter):
    """An object with the fields that Google Cloud's logging agent takes, and most others: severity, message, time."""

    def format(self, record: logging.LogRecord) -> str:
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03}Z"
        told = {"severity": record.levelname, "message": record.getMessage(), "time": moment, "logger": record.name}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told | getattr(record, "told", {}), ensure_ascii=False)


_handler = _Stderr()


def set_up(log_format: str = "text", quiet: bool = False) -> None:
    """Let everything that is said look so from now on; `json` takes what libraries log with it."""
    root = logging.getLogger()
    for logger in (root, LOG):
        logger.removeHandler(_handler)
    as_json = log_format == "json"
    _handler.setFormatter(_Json() if as_json else _Sentences())
    (root if as_json else LOG).addHandler(_handler)
    LOG.propagate = as_json
    LOG.setLevel(logging.WARNING if quiet else logging.INFO)


def is_json() -> bool:
    """Whether lines are JSON now, so that nothing may be drawn between them."""
    return isinstance(_handler.formatter, _Json) and _handler in logging.getLogger().handlers


def say(message: str, **told: Any) -> None:
    """Say what a user should know; `told` are further fields of its JSON."""
    LOG.info("%s", message, extra={"told": told})


def tell(text: str, **told: Any) -> None:
    """Say on stdout what a command was asked for; where lines are JSON, it is one of them."""
    if is_json():
        say(text, **told)
    else:
        print("\n".join(map(printable, text.split("\n"))), flush=True)


def say_progress(message: str) -> None:
    """Say how far a job is."""
    LOG.info("%s", message, extra={"bare": True})


def warn(message: str, **told: Any) -> None:
    """Say what may be wrong."""
    LOG.warning("%s", message, extra={"told": told})


def complain(message: str, **told: Any) -> None:
    """Say why a command ends without success."""
    LOG.error("%s", message, extra={"told": told})
