"""Paired statistics against what is known: binomial tables, coverage, and made-up truths."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scfl.errors import ParameterError
from scfl.experiments.paired import compare_pairs, covering_rank, judge, sign_test


@pytest.mark.parametrize("above", range(8))
@pytest.mark.parametrize("below", range(8))
def test_the_sign_test_is_scipys(above: int, below: int) -> None:
    expected = stats.binomtest(above, above + below).pvalue if above + below else 1.0
    assert sign_test(above, below) == pytest.approx(expected)


def test_intervals_have_the_ranks_of_the_tables() -> None:
    """As tabulated for the sign test at 95%; below 6 pairs no interval has that coverage."""
    tabulated = {5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 15: 4, 20: 6, 25: 8}
    assert {count: covering_rank(count, 0.95) for count in tabulated} == tabulated


@pytest.mark.parametrize("count", [6, 9, 10, 11])
def test_coverage_is_what_was_promised_and_no_rank_more_would_do(count: int) -> None:
    """All 2^n ways for values to fall on either side of the median, one by one."""
    rank = covering_rank(count, 0.95)

    def coverage(k: int) -> float:
        covered = sum(k <= sum(sides) <= count - k for sides in product((0, 1), repeat=count))
        return covered / 2**count

    assert coverage(rank) >= 0.95 > coverage(rank + 1)


def test_the_interval_covers_the_median_of_a_skewed_law() -> None:
    """2000 studies of 10 seeds; the exact coverage is 0.979, three standard errors are 0.0097."""
    rng = np.random.default_rng(0)
    draws = rng.exponential(size=(2000, 10)) ** 2 - math.log(2) ** 2
    effects = [compare_pairs(row.tolist()) for row in draws]
    covered = np.mean([effect.low <= 0 <= effect.high for effect in effects])
    assert covered == pytest.approx(0.9785, abs=0.0097)


@given(st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=1, max_size=30))
def test_turning_the_sides_round_turns_everything_round(values: list[float]) -> None:
    one, other = compare_pairs(values), compare_pairs([-value for value in values])
    assert (one.median, one.low, one.high) == (-other.median, -other.high, -other.low)
    assert one.p_value == other.p_value
    assert one.low <= one.median <= one.high
    assert one.median == pytest.approx(float(np.median(values)))


def test_differences_may_be_infinite() -> None:
    effect = compare_pairs([math.inf] * 9 + [1.0])
    assert (effect.median, effect.low, effect.high) == (math.inf, math.inf, math.inf)
    assert judge(effect, "more", margin=0.1) == "holds"
    torn = compare_pairs([math.inf, -math.inf])
    assert torn.median == 0
    with pytest.raises(ParameterError, match="no NaN"):
        compare_pairs([1.0, math.nan])
    with pytest.raises(ParameterError, match="at least one"):
        compare_pairs([])


@pytest.mark.parametrize(
    ("values", "more", "less", "same"),
    [
        ([3.0, 2.0, 4.0, 5.0, 3.5, 2.5], "holds", "fails", "fails"),
        ([-3.0, -2.0, -4.0, -5.0, -3.5, -2.5], "fails", "holds", "fails"),
        ([0.1, -0.2, 0.3, 0.2, -0.1, 0.1], "fails", "fails", "holds"),
        ([0.1, 0.2, 0.3, 0.2, 0.1, 0.1], "fails", "fails", "holds"),
        ([3.0, -2.0, 4.0, -5.0, 3.5, 2.5], "undecided", "undecided", "undecided"),
        ([0.5, 2.0, 4.0, 5.0, 3.5, 2.5], "holds", "fails", "undecided"),
        ([9.0, 9.0, 9.0], "undecided", "undecided", "undecided"),
    ],
)
def test_verdicts_where_the_truth_is_known(
    values: list[float], more: str, less: str, same: str
) -> None:
    effect = compare_pairs(values)
    assert judge(effect, "more", margin=1.0) == more
    assert judge(effect, "less", margin=1.0) == less
    assert judge(effect, "same", margin=1.0) == same


def test_opposite_claims_never_both_hold() -> None:
    for values in combinations([-2.0, -0.5, 0.0, 0.5, 2.0, math.inf, -math.inf, 1.0], 6):
        effect = compare_pairs(values)
        for margin in (0.0, 1.0):
            verdicts = [judge(effect, expected, margin=margin) for expected in ("more", "less")]
            assert verdicts.count("holds") < 2


def test_where_nothing_differs_a_difference_is_seldom_found() -> None:
    """1000 studies of 10 seeds of two equal methods: at most 2.15% on either side, by design."""
    rng = np.random.default_rng(1)
    found = [
        judge(compare_pairs(row.tolist()), "more", margin=0.0)
        for row in rng.standard_normal((1000, 10))
    ]
    assert found.count("holds") <= 30
