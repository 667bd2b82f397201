"""Conversion jobs: configurations, Beam graphs and the command line; `configure` and `convert` run a job from Python.

    from pipelines import configure, convert

    splits = {"train": 0.9, "test": 0.1}
    config = configure("csv", input="events/*.csv", output="datasets", name="events", splits=splits)
    published = convert(config)
    print(published.directory, published.splits, published.rejected)

Options have the names of the command's flags. A value is a text as on the command line, or an already parsed value.
"""

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
