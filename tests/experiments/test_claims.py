"""Claims and verdicts on made-up studies in which the truth is known either way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from scfl.experiments.claims import Claim, Comparison, Judgement, assess
from scfl.experiments.section_five import claims_of_budgets, claims_of_curves, final_accuracy
from scfl.study.records import Study
from tests.invented_study import Past, climbs, invent_study

TEN = range(10)


def comparison(
    first: list[float],
    second: list[float],
    expected: Literal["more", "less", "same"] = "less",
    unit: Literal["seconds", "accuracy"] = "seconds",
    where: str = "to 0.9",
) -> Comparison:
    return Comparison(
        "a before b", where, unit, expected, dict(enumerate(first)), dict(enumerate(second))
    )


def judged(*comparisons: Comparison) -> Judgement:
    return assess(Claim("key", "A sentence.", comparisons, "a reason"))


def test_seconds_are_compared_as_ratios() -> None:
    finding = judged(comparison([100.0] * 10, [200.0] * 10)).findings[0]
    assert finding.effect is not None
    assert math.exp(finding.effect.median) == pytest.approx(0.5)
    assert finding.verdict == "holds"


def test_five_percent_of_the_seconds_are_nobodys_difference() -> None:
    assert judged(comparison([98.0] * 10, [100.0] * 10)).verdict == "not reproduced"
    assert judged(comparison([94.0] * 10, [100.0] * 10)).verdict == "reproduced"
    assert judged(comparison([80.0] * 10, [99.0] * 10, "same")).verdict == "reproduced"
    assert judged(comparison([80.0] * 10, [101.0] * 10, "same")).verdict == "not reproduced"


def test_who_never_gets_there_is_later_than_anybody() -> None:
    never = [math.inf] * 10
    assert judged(comparison([100.0] * 10, never)).verdict == "reproduced"
    assert judged(comparison(never, [100.0] * 10)).verdict == "not reproduced"
    nobody = judged(comparison(never, never))
    assert nobody.verdict == "undecided"
    assert nobody.findings[0].effect is None


def test_a_target_met_from_the_start_is_before_anything_else() -> None:
    assert judged(comparison([0.0] * 10, [5.0] * 10)).verdict == "reproduced"


def test_only_seeds_that_both_have_are_compared() -> None:
    few = Comparison("a", "b", "accuracy", "more", {0: 0.9, 1: 0.9}, {1: 0.5, 2: 0.5})
    effect = judged(few).findings[0].effect
    assert effect is not None
    assert effect.pairs == 1


def test_the_verdict_over_several_comparisons() -> None:
    yes, no = comparison([1.0] * 10, [2.0] * 10), comparison([2.0] * 10, [1.0] * 10)
    open_ = comparison([1.0, 2.0] * 5, [2.0, 1.0] * 5)
    never = comparison([math.inf] * 10, [math.inf] * 10)
    assert judged(yes, yes).verdict == "reproduced"
    assert judged(yes, never).verdict == "reproduced"
    assert judged(no, open_).verdict == "not reproduced"
    assert judged(open_, never).verdict == "undecided"
    assert not judged(open_).failed
    assert judged(yes, no).failed
    partly = judged(yes, replace(yes, where="to 0.95"), *[replace(no, where="to 0.99")] * 2)
    assert partly.verdict == "reproduced only where a before b to 0.9, 0.95"
    mostly = judged(yes, replace(yes, where="to 0.95"), replace(open_, where="to 0.99"))
    assert mostly.verdict == "reproduced except where a before b to 0.99"


def test_places_that_differ_are_named_one_by_one() -> None:
    yes, no = comparison([1.0] * 10, [2.0] * 10), comparison([2.0] * 10, [1.0] * 10)
    partly = judged(replace(yes, where="without noise"), replace(yes, where="at eps 1"), no, no)
    assert partly.verdict == "reproduced only where a before b without noise, at eps 1"


def test_what_holds_in_the_same_places_is_named_together() -> None:
    yes, no = comparison([1.0] * 10, [2.0] * 10), comparison([2.0] * 10, [1.0] * 10)
    partly = judged(yes, replace(yes, what="c before b"), no, no)
    assert partly.verdict == "reproduced only where a before b, c before b to 0.9"


def fast_and_slow() -> Study:
    """A world after the paper's heart, except that DP-CFL is quick and CodedFedL comparable."""

    def times(seconds: float) -> list[Past]:
        return climbs(*(seconds * (1 + 0.01 * seed) for seed in TEN))

    def ends(final: float) -> list[Past]:
        return [Past([0.0, 50.0, 60.0], [0.1, 0.5, final]) for _ in TEN]

    study = invent_study(
        {
            "scfl": times(100),
            "codedfedl": times(110),
            "dp-cfl": times(20),
            "cfl-fb": climbs(*[math.inf] * 10),
            "fl-pma(0)": times(150),
            "fl-pma(0.2)": ends(0.8),
            "fl-ipw": times(100),
            "one-shot": [Past([0.0, 1.0], [0.1, 0.95], setup_s=500.0) for _ in TEN],
        },
        methods={"fl-pma(0)": "fedavg", "fl-pma(0.2)": "fl-pma"},
    )
    runs = tuple(
        replace(run, parameters={"drop_fraction": 0.2}) if run.method == "fl-pma" else run
        for run in study.runs
    )
    return replace(study, runs=runs)


def test_every_sentence_on_figure_1_gets_the_verdict_that_the_data_deserve() -> None:
    claims = claims_of_curves(fast_and_slow(), [0.85], "apart")
    assert {claim.key: assess(claim).verdict for claim in claims} == {
        "cfl-fb-slow": "reproduced",
        "fedavg-slow": "reproduced",
        "dropping-is-faster": "not reproduced",
        "dropping-ends-lower": "reproduced",
        "dp-cfl-slow": "not reproduced",
        "codedfedl-comparable": "reproduced",
        "coding-helps": "not reproduced",
        "rounds-beat-one-shot": "reproduced",
    }


def test_a_claim_without_its_methods_is_not_made() -> None:
    alone = invent_study({"scfl": climbs(1, 2), "dp-cfl": climbs(3, 4)})
    assert [claim.key for claim in claims_of_curves(alone, [0.8], "apart")] == ["dp-cfl-slow"]


def test_the_clock_that_counts_the_setup_may_turn_a_verdict_round() -> None:
    study = invent_study(
        {
            "scfl": climbs(*[10.0] * 10, setup_s=1000.0),
            "cfl-fb": climbs(*[100.0] * 10, setup_s=10.0),
        }
    )
    verdicts = {
        clock: assess(claims_of_curves(study, [0.85], clock)[0]).verdict
        for clock in ("apart", "counted")
    }
    assert verdicts == {"apart": "reproduced", "counted": "not reproduced"}


def at_level(scfl: float, codedfedl: float, *, ipw: float | None = None) -> Study:
    rng = np.random.default_rng(3)

    def runs(final: float) -> list[Past]:
        return [Past([0.0, 9.0], [0.1, final + 1e-4 * rng.standard_normal()]) for _ in TEN]

    pasts = {"scfl": runs(scfl), "codedfedl": runs(codedfedl)}
    return invent_study(pasts if ipw is None else {**pasts, "fl-ipw": runs(ipw)})


def test_every_sentence_on_figure_2_gets_the_verdict_that_the_data_deserve() -> None:
    levels = {
        None: at_level(0.94, 0.95, ipw=0.95),
        1.0: at_level(0.9, 0.8),
        0.1: at_level(0.5, 0.1),
    }
    verdicts = {claim.key: assess(claim).verdict for claim in claims_of_budgets(levels)}
    assert verdicts == {
        "accuracy-falls": "reproduced",
        "scfl-best": "reproduced except where scfl above codedfedl without noise",
        "coding-pays": "not reproduced",
    }


def test_accuracy_that_rises_as_the_budget_shrinks_is_found_out() -> None:
    levels = {None: at_level(0.9, 0.9), 1.0: at_level(0.8, 0.95), 0.1: at_level(0.7, 0.5)}
    claim = claims_of_budgets(levels)[0]
    assert assess(claim).verdict == ("reproduced except where codedfedl from no noise to 1 bits")


def test_a_run_that_diverged_ends_with_the_first_guess() -> None:
    study = invent_study({"scfl": [Past([0.0, 5.0], [0.1, 0.7], diverged=True)]})
    assert final_accuracy(study.runs[0]) == 0.1
