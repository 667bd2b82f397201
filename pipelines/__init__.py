"""The jobs of shardmill: configuration, Beam graphs and the command line."""

import logging

if __name__ != "shardmill.pipelines":
    raise ImportError(f"import shardmill.pipelines instead of {__name__}")


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
