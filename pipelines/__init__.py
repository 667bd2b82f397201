"""The jobs of shardmill: configuration, graphs, the command line; and `convert`, by which Python runs a job.

    from pipelines import configure, convert

    splits = {"train": 0.9, "test": 0.1}
    config = configure("csv", input="events/*.csv", output="datasets", name="events", splits=splits)
    published = convert(config)
    print(published.directory, published.splits, published.rejected)

Options have the names of the command's flags; a value is a text, as on the command line, or what it stands for.
"""

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.running.api import configure, convert
    from pipelines.running.outcome import Published

__all__ = ["Published", "configure", "convert"]

_MODULES = {"configure": "api", "convert": "api", "Published": "outcome"}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: Beam takes a second."""
    if name not in _MODULES:
        raise AttributeError(f"module 'pipelines' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"pipelines.running.{_MODULES[name]}"), name)


def _is_news(record: logging.LogRecord) -> bool:
    """Not what Beam says as it is imported without Google's clients, which a job on local disks has no need of."""
    return "apitools not found" not in str(record.msg)


def _without_trace(record: logging.LogRecord) -> bool:
    """Each of Beam's tries to find Google's credentials would show a stack; what it waits for is enough."""
    text, traced, _ = str(record.msg).partition(" Traceback for above exception")
    if traced and isinstance(record.args, tuple):
        record.msg, record.args = text, tuple(str(value).strip() for value in record.args[:-1])
    return True


logging.getLogger("apache_beam.utils.retry").addFilter(_without_trace)
logging.getLogger().addFilter(_is_news)  # here, which runs before any module of ours imports Beam
