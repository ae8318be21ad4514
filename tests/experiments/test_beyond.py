"""The claims on methods of our own, on made-up studies in which the truth is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from scfl.experiments.beyond import claims_beyond, count_rounds_to_scfl
from scfl.experiments.claims import assess
from scfl.study.records import Study
from tests.invented_study import Past, climbs, invent_study

TEN = range(10)


def past(
    curvature_s: float,
    *,
    rounds: int = 8,
    final: float = 0.95,
    setup_s: float = 0.0,
) -> Study:
    """SCFL takes 1000 s and 100 rounds, momentum 300 s and 30; curvature what is given."""

    def times(
        seconds: float, count: int, end: float = 0.95, setup: float = 0.0, between: float = 0.9
    ) -> list[Past]:
        return [
            Past(
                [0.0, seconds * (1 + 0.01 * seed), 5000.0],
                [0.1, between, end],
                setup_s=setup,
                rounds=[0, count, 10 * count],
            )
            for seed in TEN
        ]

    study = invent_study(
        {
            # It ends as it was halfway: that is what the others have to reach.
            "scfl": times(1000, 100, 0.9),
            "fl-ipw(momentum)": times(300, 30),
            "curvature": times(curvature_s, rounds, setup=setup_s),
            "resilient": times(curvature_s, rounds, final, setup_s),
        },
        methods={"fl-ipw(momentum)": "fl-ipw"},
    )
    runs = tuple(
        replace(run, parameters={"momentum": 0.9}) if run.method == "fl-ipw" else run
        for run in study.runs
    )
    problem = replace(study.manifest.problem, optimum_accuracy=0.955)
    return replace(study, runs=runs, manifest=replace(study.manifest, problem=problem))


def leaving(study: Study) -> Study:
    config: dict[str, Any] = {**study.manifest.config, "availability": {"kind": "departures"}}
    return replace(study, manifest=replace(study.manifest, config=config))


def verdicts(study: Study, clock: Any = "apart") -> dict[str, str]:
    claims = claims_beyond(study, [0.85], clock, near=0.010)
    return {claim.key: assess(claim).verdict for claim in claims}


def test_ten_times_is_ten_times_and_twice_is_twice() -> None:
    assert verdicts(past(90)) == {
        "curvature-rounds": "reproduced",
        "curvature-sooner": "reproduced",
        "curvature-momentum": "reproduced",
        "resilient-no-worse": "reproduced",
        "resilient-near": "reproduced",
    }
    slower = verdicts(past(120, rounds=12))
    assert slower["curvature-rounds"] == "not reproduced"
    assert slower["curvature-sooner"] == "not reproduced"
    assert slower["curvature-momentum"] == "reproduced"
    assert verdicts(past(90, rounds=16))["curvature-momentum"] == "not reproduced"


def test_rounds_and_seconds_are_told_apart() -> None:
    assert verdicts(past(120))["curvature-rounds"] == "reproduced"
    assert verdicts(past(90, rounds=12))["curvature-sooner"] == "reproduced"


def test_a_setup_that_counts_is_counted_in_seconds_alone() -> None:
    assert verdicts(past(90, setup_s=80.0), "counted")["curvature-sooner"] == "reproduced"
    late = verdicts(past(90, setup_s=200.0), "counted")
    assert late["curvature-sooner"] == "not reproduced"
    assert late["curvature-rounds"] == "reproduced"


def test_the_goal_is_each_seeds_own_and_a_rival_may_choose_its_iterate() -> None:
    study = past(90, rounds=16)
    # Momentum's average is slow, its last iterate is not: the latter counts.
    runs = tuple(
        replace(run, trace=replace(run.trace, accuracy_average=0 * run.trace.accuracy))
        for run in study.runs
    )
    found = {
        claim.key: assess(claim)
        for claim in claims_beyond(replace(study, runs=runs), [], "apart", near=0.010)
    }
    assert found["curvature-momentum"].verdict == "not reproduced"
    (finding,) = found["curvature-rounds"].findings[:1]
    assert finding.where == "to where scfl ends"
    assert finding.effect is not None
    assert finding.effect.median == pytest.approx(math.log(160 / 100))


def test_a_seed_in_which_scfl_diverged_is_no_goal() -> None:
    study = past(90)
    runs = tuple(
        replace(run, diverged=True) if (run.label, run.seed) == ("scfl", 3) else run
        for run in study.runs
    )
    claims = claims_beyond(replace(study, runs=runs), [], "apart", near=0.010)
    assert 3 not in claims[0].comparisons[0].first


@pytest.mark.parametrize(
    ("final", "no_worse", "best", "near"),
    [
        (0.96, "reproduced", "reproduced", "reproduced"),
        (0.949, "reproduced", "partly", "reproduced"),
        (0.947, "partly", "partly", "reproduced"),
        (0.94, "partly", "partly", "not reproduced"),
        (0.89, "not reproduced", "not reproduced", "not reproduced"),
    ],
)
def test_ends_are_compared_with_everybody_and_with_the_optimum(
    final: float, no_worse: str, best: str, near: str
) -> None:
    """SCFL ends at 0.9, the others at 0.95: partly is above SCFL only."""
    found = verdicts(leaving(past(90, final=final)))
    only = " where resilient "
    assert {key: "partly" if only in verdict else verdict for key, verdict in found.items()} == {
        "resilient-no-worse": no_worse,
        "resilient-best": best,
        "resilient-near": near,
    }


def test_without_the_methods_nothing_is_claimed() -> None:
    study = invent_study({"scfl": climbs(1, 2)})
    assert claims_beyond(study, [0.8], "apart", near=0.010) == []


def test_rounds_are_counted_where_ours_are_compared_and_everybody_stays() -> None:
    study = past(90)
    (taken,) = count_rounds_to_scfl(study, "curvature").values()
    assert taken == dict.fromkeys(TEN, 8)
    assert count_rounds_to_scfl(leaving(study), "curvature") == {}
    assert count_rounds_to_scfl(invent_study({"scfl": climbs(1, 2)}), "scfl") == {}
