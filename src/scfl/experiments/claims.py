"""What a sentence of a paper claims, what was measured of it, and the verdict: all from data.

A claim stands on comparisons: one number per seed of one method against the same of another, under
one condition (a target accuracy, a privacy budget). Each comparison gets an effect with its exact
interval (``scfl.experiments.paired``), and the claim a verdict over all of them:

- *reproduced*: every comparison came out as claimed;
- *reproduced only where ...*, or *except where ...*: some did; the fewer are named;
- *not reproduced*: none did, and at least one came out otherwise;
- *undecided*: the seeds cannot tell.

Seconds and rounds are compared as ratios, accuracies as differences. Differences that nobody would
notice do not count: 5% of the seconds, 0.002 of accuracy; what is claimed to be comparable may
differ by 25% of the seconds or 0.005 of accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scfl.experiments.paired import Effect, Expected, Verdict, compare_pairs, judge

Unit = Literal["seconds", "rounds", "accuracy"]
# One number per seed; seconds and rounds are infinite where the target was never reached.
Series = Mapping[int, float]

_MARGINS: Mapping[tuple[Unit, bool], float] = {
    ("seconds", False): math.log(1.05),
    ("seconds", True): math.log(1.25),
    ("rounds", False): math.log(1.05),
    ("rounds", True): math.log(1.25),
    ("accuracy", False): 0.002,
    ("accuracy", True): 0.005,
}


@dataclass(frozen=True)
class Comparison:
    """One difference that a claim expects: the first is more, less, or the same as the second.

    A claim that has its own margin within the numbers ("twice as soon") asks for none here.
    """

    what: str
    where: str
    unit: Unit
    expected: Expected
    first: Series
    second: Series
    margin: float | None = None


@dataclass(frozen=True)
class Claim:
    """A sentence, the comparisons that it stands on, and why it may fail, for who asks."""

    key: str
    sentence: str
    comparisons: tuple[Comparison, ...]
    because: str = ""


@dataclass(frozen=True)
class Finding:
    """What a comparison showed; no effect where no pair of runs could be compared."""

    what: str
    where: str
    unit: Unit
    expected: Expected
    effect: Effect | None
    verdict: Verdict


@dataclass(frozen=True)
class Judgement:
    """A claim with its findings and the verdict over all of them."""

    claim: Claim
    findings: tuple[Finding, ...]
    verdict: str

    @property
    def failed(self) -> bool:
        """Whether anything came out otherwise than claimed."""
        return any(finding.verdict == "fails" for finding in self.findings)


def assess(claim: Claim) -> Judgement:
    """Test every comparison of a claim."""
    findings = tuple(_find(comparison) for comparison in claim.comparisons)
    return Judgement(claim, findings, _conclude(findings))


def _find(comparison: Comparison) -> Finding:
    differences = _differences(comparison)
    effect: Effect | None = None
    verdict: Verdict = "undecided"
    if differences:
        effect = compare_pairs(differences)
        margin = comparison.margin
        if margin is None:
            margin = _MARGINS[comparison.unit, comparison.expected == "same"]
        verdict = judge(effect, comparison.expected, margin=margin)
    return Finding(
        what=comparison.what,
        where=comparison.where,
        unit=comparison.unit,
        expected=comparison.expected,
        effect=effect,
        verdict=verdict,
    )


def _differences(comparison: Comparison) -> list[float]:
    """Seed by seed; where neither gets to the target there is nothing to compare."""
    found = []
    for seed, first in comparison.first.items():
        second = comparison.second.get(seed)
        if second is None or (math.isinf(first) and first == second):
            continue
        if comparison.unit != "accuracy":
            found.append(_log(first) - _log(second))
        else:
            found.append(first - second)
    return found


def _log(seconds: float) -> float:
    return math.log(seconds) if 0 < seconds < math.inf else math.copysign(math.inf, seconds - 1)


def _conclude(findings: Sequence[Finding]) -> str:
    decided = [finding for finding in findings if finding.effect is not None]
    holds = [finding for finding in decided if finding.verdict == "holds"]
    if not holds:
        failed = any(finding.verdict == "fails" for finding in decided)
        return "not reproduced" if failed else "undecided"
    if len(holds) == len(decided):
        return "reproduced"
    rest = [finding for finding in decided if finding.verdict != "holds"]
    if len(rest) < len(holds):
        return f"reproduced except where {_name_places(rest)}"
    return f"reproduced only where {_name_places(holds)}"


def _name_places(findings: Sequence[Finding]) -> str:
    """What was compared, and the conditions under which; each is said once."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        places.setdefault(finding.what, []).append(finding.where)
    shared: dict[str, list[str]] = {}
    for what, where in places.items():
        shared.setdefault(_join(where), []).append(what)
    return "; ".join(f"{', '.join(whats)} {where}" for where, whats in shared.items())


def _join(places: Sequence[str]) -> str:
    """``to 0.85, 0.9``: what all places begin with is said once."""
    first = places[0].rsplit(" ", 1)
    shared = first[0] if len(first) > 1 else ""
    if shared and all(place.rsplit(" ", 1)[0] == shared for place in places):
        return f"{shared} " + ", ".join(place.rsplit(" ", 1)[1] for place in places)
    return ", ".join(places)
