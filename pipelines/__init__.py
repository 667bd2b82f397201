"""Conversion jobs: configurations, Beam graphs, reports, the command line and the Python API."""

import logging

if __name__ != "shardmill.pipelines":
    raise ImportError(f"import shardmill.pipelines instead of {__name__}")


def _is_news(record: logging.LogRecord) -> bool:
    """Drop Beam's import warning about missing Google clients, which jobs on local disks do not need."""
    return "apitools not found" not in str(record.msg)


def _without_trace(record: logging.LogRecord) -> bool:
    """Drop the stack trace that Beam logs with each attempt to find Google's credentials."""
    text, traced, _ = str(record.msg).partition(" Traceback for above exception")
    if traced and isinstance(record.args, tuple):
        record.msg, record.args = text, tuple(str(value).strip() for value in record.args[:-1])
    return True


logging.getLogger("apache_beam.utils.retry").addFilter(_without_trace)
logging.getLogger().addFilter(_is_news)  # here, which runs before any module of ours imports Beam
