"""Times in answers of S3: botocore leaves them to dateutil, which takes half of the time that a long listing takes."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.utils import parse_timestamp


def parse_time(value: Any) -> datetime:
    """A time as S3 writes it, in lists (2026-11-19T02:03:04.000Z) and in headers (Thu, 19 Nov 2026 02:03:04 GMT); what
    it is in neither way is left to botocore, which raises ValueError."""
    if isinstance(value, str):
        for parse in (datetime.fromisoformat, parsedate_to_datetime):
            try:
                found = parse(value)
            except (TypeError, ValueError):
                continue
            if found.tzinfo is not None:
                return found.astimezone(UTC)
    return parse_timestamp(value)
