"""The sections of a recipe check themselves, as flags do."""

from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.pipelines.nightly.recipe import BuildOptions, FailureOptions, FreshnessOptions, RetainOptions


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        (FreshnessOptions, {"warn_after": "26"}, "--warn_after: '26' is not a length of time"),
        (FreshnessOptions, {"warn_after": "3h", "error_after": "2h"}, "--error_after is less than --warn_after"),
        (RetainOptions, {"min_versions": "0"}, "--min_versions 0: expected at least 1"),
        (RetainOptions, {"max_age": "old"}, "--max_age: 'old' is not a length of time"),
        (RetainOptions, {"max_age": "30d"}, "give --min_versions and --max_age, for both must allow"),
        (FailureOptions, {"webhook": "ftp://secret"}, "--webhook: expected a URL"),
        (BuildOptions, {"labels": "freeze"}, "--labels freeze: expected one of keep, rebuild"),
        (BuildOptions, {"window": "0d"}, "--window: '0d': expected more than nothing"),
        (BuildOptions, {"unchanged_status": "126"}, "--unchanged_status 126: expected 0 to 125"),
        (BuildOptions, {"version": "1.0"}, "--version '1.0': expected three numbers, such as 1.0.0, or auto"),
    ],
)
def test_mistakes(section: Any, values: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        section(**values)

    assert words in str(caught.value)


def test_the_sentence_about_a_webhook_does_not_show_it() -> None:
    with pytest.raises(UserError) as caught:
        FailureOptions(webhook="hooks.example.org/T0/secret")

    assert "secret" not in str(caught.value)


def test_defaults() -> None:
    assert (BuildOptions().version, BuildOptions().labels, BuildOptions().window) == ("auto", "rebuild", 1)
    assert FreshnessOptions(warn_after="26h").warn_after == 93_600  # type: ignore[arg-type]
