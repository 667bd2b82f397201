"""Which older versions go on object stores: the table that also runs on a disk."""

import pytest

from tests.support.buckets import Bucket
from tests.support.retained import CASES, check_retained

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES)
def test_what_goes_and_what_stays(bucket: Bucket, case: str) -> None:
    check_retained(bucket, CASES[case])
