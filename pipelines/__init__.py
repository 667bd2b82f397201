"""Conversion jobs: configurations, Beam graphs, reports, the command line and the Python API."""

import logging

if __name__ != "shardmill.pipelines":
    raise ImportError(f"import shardmill.pipelines instead of {__name__}")


def _without_trace(record: logging.LogRecord) -> bool:
    """Drop the stack trace that Beam logs with each attempt to find Google's credentials."""
    text, traced, _ = str(record.msg).partition(" Traceback for above exception")
    if traced and isinstance(record.args, tuple):
        record.msg, record.args = text, tuple(str(value).strip() for value in record.args[:-1])
    return True


logging.getLogger("apache_beam.utils.retry").addFilter(_without_trace)
# Beam's import warning about missing Google clients, here, before any module of ours imports it
logging.getLogger().addFilter(lambda record: "apitools not found" not in str(record.msg))
