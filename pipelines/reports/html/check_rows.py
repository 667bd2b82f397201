"""The rows of a page's checks: what failed and what warns one by one, what nobody knows in a line a check. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

_ALONE = 3  # so many unknown results of a check are told one by one
_NAMED = 3  # features, of those that are told together


def check_rows(checks: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The results that are not `ok`, the gravest first."""
    rows = [_row(check) for severity in ("error", "warn") for check in checks if check["severity"] == severity]
    unknown: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for check in checks:
        if check["severity"] == "unknown":
            unknown[check["check"]].append(check)
    for found in unknown.values():
        rows += map(_row, found) if len(found) <= _ALONE else [_together(found)]
    return rows


def _row(check: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(check[key]) for key in ("severity", "check", "feature", "split", "sentence")}


def _together(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    features = list(dict.fromkeys(check["feature"] for check in found if check["feature"]))
    splits = dict.fromkeys(check["split"] for check in found if check["split"])
    more = ", …" if len(features) > _NAMED else ""
    return {
        "severity": "unknown",
        "check": found[0]["check"],
        "feature": f"{len(features):,}: {', '.join(features[:_NAMED])}{more}" if features else "",
        "split": ", ".join(splits),
        "sentence": f"{len(found):,} times, such as: {found[0]['sentence']}",
    }
