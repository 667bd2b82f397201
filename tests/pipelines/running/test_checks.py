"""What is checked before a job starts."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.kinds.registry import KINDS
from pipelines.running.checks import check_baseline
from shardmill.errors import UserError
from tests.support.versions import make_version
from transforms.options.checks import CheckOptions


@pytest.mark.parametrize(
    ("baseline", "sentence"),
    [("1.0.0", ""), ("LATEST", ""), ("1.0.7", "1.0.7 is not a data set"), ("gold", "no version or tag 'gold'")],
)
def test_the_version_to_compare_with_is_there(tmp_path: Path, baseline: str, sentence: str) -> None:
    make_version(tmp_path / "n", "1.0.0", latest=False, examples=2)
    plain = KINDS["csv"].make_config({"input": str(tmp_path), "output": str(tmp_path), "name": "n"})

    check_baseline(plain)
    config = replace(plain, checks=CheckOptions(baseline=baseline))
    if sentence:
        with pytest.raises(UserError, match=sentence):
            check_baseline(config)
    else:
        check_baseline(config)
