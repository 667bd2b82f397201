"""The jobs of shardmill: configuration, graphs and the command line."""

import logging


def _is_news(record: logging.LogRecord) -> bool:
    """Not what Beam says as it is imported without Google's clients, which a job on local disks has no need of."""
    return "apitools not found" not in str(record.msg)


logging.getLogger().addFilter(_is_news)  # here, which runs before any module of ours imports Beam
