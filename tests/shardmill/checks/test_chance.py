import math

import numpy as np
import pytest

from shardmill.quality.distances import (
    divergence_floor,
    jensen_shannon_of_counts,
    ratio_ceiling,
    ratio_floor,
    share_floor,
)
from tests.support.later import Later

stats = Later("scipy.stats")


@pytest.mark.parametrize("examples", [100, 1_000, 10_000])
@pytest.mark.parametrize("bins", [2, 5, 20])
def test_two_samples_of_the_same_do_not_reach_the_floors(examples: int, bins: int) -> None:
    random = np.random.default_rng(bins)
    shares = random.dirichlet(np.full(bins, 0.5))
    drawn = random.multinomial(examples, shares, size=(2, 500))
    floor = divergence_floor(bins, examples, examples)
    widest = max(share_floor(share, examples, examples, bins) for share in shares)

    divergences = [jensen_shannon_of_counts(one.tolist(), other.tolist()) for one, other in zip(*drawn)]
    assert max(divergences) < floor
    assert np.abs(drawn[0] - drawn[1]).max() / examples < widest


def test_the_floors_are_not_far_above_what_chance_does() -> None:
    random = np.random.default_rng(0)
    drawn = random.multinomial(1000, [0.05] * 20, size=(2, 2000))
    largest = max(jensen_shannon_of_counts(one.tolist(), other.tolist()) for one, other in zip(*drawn))

    assert divergence_floor(20, 1000, 1000) < 2.5 * largest
    assert share_floor(0.05, 1000, 1000, 20) < 2.5 * np.abs(drawn[0] - drawn[1]).max() / 1000


@pytest.mark.parametrize("freedom", [1, 4, 19, 63])
def test_chi_squared_is_that_of_scipy(freedom: int) -> None:
    expected = stats.chi2.isf(1e-4, freedom) * (1 / 10_000 + 1 / 20_000) / 4

    assert divergence_floor(freedom + 1, 10_000, 20_000) == pytest.approx(expected, rel=0.03)


def test_a_single_bin_is_as_any_other() -> None:
    assert divergence_floor(1, 5, 5) == 0


def test_a_floor_by_hand() -> None:
    # ln(2 / 1e-4) = 9.9035; sqrt(2 * 0.25 * (1/100 + 1/100) * 9.9035) + 9.9035 / 300
    assert share_floor(0.5, 100, 100) == pytest.approx(0.31470 + 0.03301, abs=1e-4)
    assert share_floor(0.5, 1, 1) == 1


@pytest.mark.parametrize("examples", [20, 1_000, 100_000])
def test_how_many_a_hash_deals_out(examples: int) -> None:
    """A difference of 3.719 standard deviations, sqrt(one + other)."""
    for share in (ratio_floor(examples), ratio_ceiling(examples)):
        difference = abs(share - 1) * examples
        assert difference == pytest.approx(3.719 * math.sqrt(examples * (1 + share)), rel=1e-3)


def test_none_of_none() -> None:
    assert ratio_floor(0) == 0
    assert ratio_ceiling(0) == math.inf
