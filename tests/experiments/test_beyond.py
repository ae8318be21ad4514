"""The claims on methods of our own, on made-up studies in which the truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scfl.experiments.beyond import claims_beyond
from scfl.experiments.claims import assess
from scfl.study.records import Study
from tests.invented_study import Past, climbs, invent_study

TEN = range(10)


def past(curvature_s: float, *, final: float = 0.95, setup_s: float = 0.0) -> Study:
    """SCFL takes 1000 s, momentum 300 s; curvature what is given."""

    def times(seconds: float, end: float = 0.95, setup: float = 0.0) -> list[Past]:
        return [
            Past([0.0, seconds * (1 + 0.01 * seed), 5000.0], [0.1, 0.9, end], setup_s=setup)
            for seed in TEN
        ]

    study = invent_study(
        {
            "scfl": times(1000),
            "fl-ipw(momentum)": times(300),
            "curvature": times(curvature_s, setup=setup_s),
            "resilient": times(curvature_s, final, setup_s),
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
    return {claim.key: assess(claim).verdict for claim in claims_beyond(study, [0.85], clock)}


def test_ten_times_is_ten_times_and_twice_is_twice() -> None:
    assert verdicts(past(90)) == {
        "curvature-sooner": "reproduced",
        "curvature-momentum": "reproduced",
        "resilient-no-worse": "reproduced",
        "resilient-near": "reproduced",
    }
    slower = verdicts(past(120))
    assert slower["curvature-sooner"] == "not reproduced"
    assert slower["curvature-momentum"] == "reproduced"
    assert verdicts(past(160))["curvature-momentum"] == "not reproduced"


def test_a_setup_that_counts_is_counted() -> None:
    assert verdicts(past(90, setup_s=80.0), "counted")["curvature-sooner"] == "reproduced"
    assert verdicts(past(90, setup_s=200.0), "counted")["curvature-sooner"] == "not reproduced"


@pytest.mark.parametrize(
    ("final", "no_worse", "best", "near"),
    [
        (0.96, "reproduced", "reproduced", "reproduced"),
        (0.949, "reproduced", "not reproduced", "reproduced"),
        (0.947, "not reproduced", "not reproduced", "reproduced"),
        (0.94, "not reproduced", "not reproduced", "not reproduced"),
    ],
)
def test_ends_are_compared_with_everybody_and_with_the_optimum(
    final: float, no_worse: str, best: str, near: str
) -> None:
    found = verdicts(leaving(past(90, final=final)))
    assert found == {
        "resilient-no-worse": no_worse,
        "resilient-best": best,
        "resilient-near": near,
    }


def test_without_the_methods_nothing_is_claimed() -> None:
    assert claims_beyond(invent_study({"scfl": climbs(1, 2)}), [0.8], "apart") == []
