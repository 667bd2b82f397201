"""The rows of checks: what is grave one by one, what is unknown together."""

from shardmill.pipelines.reports.rows import check_rows
from shardmill.quality.limits import CheckResult, Severity


def rows(*results: CheckResult) -> list[dict[str, str]]:
    return check_rows([result.to_json() for result in results])


def of(severity: Severity, number: int = 0) -> CheckResult:
    return CheckResult("skew", severity, f"sentence {number}", f"column {number}", "test")


def test_hundreds_that_are_unknown_are_one_line() -> None:
    (row,) = rows(*(of("unknown", number) for number in range(1_234)))

    assert row == {
        "severity": "unknown",
        "check": "skew",
        "feature": "1,234: column 0, column 1, column 2, …",
        "split": "test",
        "sentence": "1,234 times, such as: sentence 0",
    }


def test_a_few_stand_alone_and_the_gravest_first() -> None:
    found = rows(of("unknown"), of("ok"), of("warn", 1), of("unknown", 2), of("error", 3))

    assert [(row["severity"], row["sentence"]) for row in found] == [
        ("error", "sentence 3"),
        ("warn", "sentence 1"),
        ("unknown", "sentence 0"),
        ("unknown", "sentence 2"),
    ]


def test_each_check_has_its_own_line() -> None:
    other = [CheckResult("drift", "unknown", "nobody knows") for _ in range(4)]

    assert [row["check"] for row in rows(*other, *(of("unknown", n) for n in range(5)))] == ["drift", "skew"]
    assert rows(*other)[0]["feature"] == ""
