"""Builds in a line, for logs and the mails of cron."""

from shardmill.versions.build_record import BuildRecord
from shardmill.versions.published import comparison


def published_line(record: BuildRecord) -> str:
    """Of a version that was published: how many examples there are, what checks compared with, how long it took."""
    counts = ", ".join(f"{examples:,} in {split}" for split, examples in record.splits.items())
    rejected = f"; {record.rejected:,} rejected" if record.rejected else ""
    told = [
        f"{record.name} {record.version} is published: {counts or 'no examples'}{rejected}",
        comparison(record.version, record.baseline),
        f"{record.seconds:.0f} s",
    ]
    return "; ".join(filter(None, told))
