"""Comparing two methods seed by seed: an exact interval for the median difference, and a verdict.

Two methods with one seed met the same machines, delays and batches, so their results are compared
in pairs. The statistic is the sign test's, because it assumes nothing but independent seeds, and
because it stands "never reached the target" (an infinite difference) and ties:

- the interval for the median difference runs between the k-th smallest and the k-th largest
  difference, with the largest k that covers the median with the wanted confidence,
  1 - 2 P(Bin(n, 1/2) < k);
- the p-value is that of as many or more differences on one side, ties left out.

With 10 seeds the 95% interval leaves out the smallest and the largest difference (its coverage is
97.9%); with fewer than 6 there is none, and nothing can be decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scfl.core.parameter import Requirements

Expected = Literal["more", "less", "same"]
Verdict = Literal["holds", "fails", "undecided"]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Effect:
    """The median difference over so many pairs, its interval, and the sign test's p-value."""

    median: float
    low: float
    high: float
    p_value: float
    pairs: int


def compare_pairs(differences: Sequence[float], *, confidence: float = CONFIDENCE) -> Effect:
    """Estimate the median of the differences; infinite ones are allowed, NaN is not."""
    with Requirements() as require:
        require.number("confidence", confidence, above=0, below=1)
        sound = len(differences) > 0 and not any(math.isnan(value) for value in differences)
        require.that(sound, "differences", "give at least one number, and no NaN")
    ordered = sorted(differences)
    count, rank = len(ordered), covering_rank(len(ordered), confidence)
    return Effect(
        median=_middle(ordered[(count - 1) // 2], ordered[count // 2]),
        low=ordered[rank - 1] if rank else -math.inf,
        high=ordered[count - rank] if rank else math.inf,
        p_value=sign_test(sum(value > 0 for value in ordered), sum(value < 0 for value in ordered)),
        pairs=count,
    )


def covering_rank(count: int, confidence: float) -> int:
    """The largest k with which the k-th values from both ends cover the median; 0 if none does."""
    missed, rank = 0.0, 0
    while True:
        missed += math.comb(count, rank) / 2**count
        if 2 * missed > 1 - confidence or rank >= count // 2:
            return rank
        rank += 1


def sign_test(above: int, below: int) -> float:
    """The two-sided p-value of so many differences above and below zero."""
    count = above + below
    tail = float(sum(math.comb(count, few) for few in range(min(above, below) + 1)) / 2**count)
    return min(1.0, 2 * tail)


def judge(effect: Effect, expected: Expected, *, margin: float) -> Verdict:
    """Whether the interval shows what was expected, the contrary, or neither.

    Differences up to ``margin`` do not matter: "same" holds when the whole interval is within it,
    and "more" and "less" fail when the interval ends before it gets there.
    """
    if expected == "less":
        effect = Effect(-effect.median, -effect.high, -effect.low, effect.p_value, effect.pairs)
    if expected == "same":
        if -margin <= effect.low and effect.high <= margin:
            return "holds"
        return "fails" if effect.low > margin or effect.high < -margin else "undecided"
    if effect.high <= margin:
        return "fails"
    return "holds" if effect.low > 0 else "undecided"


def _middle(low: float, high: float) -> float:
    # The midpoint of minus and plus infinity is anybody's guess: the sides are level.
    if math.isinf(low) and math.isinf(high) and low != high:
        return 0.0
    return low if low == high else (low + high) / 2
