"""What a page quotes of the runs, on made-up studies whose numbers are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scfl.experiments.evidence import quote_floor, quote_limit
from scfl.experiments.section_five import claims_of_budgets, claims_of_curves
from scfl.study.records import Study
from tests.invented_study import climbs, invent_study

BOTH = {"scfl": climbs(100, 200, 300), "fl-ipw": climbs(50, 60, 70)}


def study_with(
    changes: Mapping[str, Sequence[Mapping[str, Any]]], optimum_loss: float | None = 0.5
) -> Study:
    """Three seeds of SCFL and FL-IPW, some fields of whose runs are changed seed by seed."""
    study = invent_study(BOTH)
    runs = tuple(
        replace(run, **changes[run.label][run.seed]) if run.label in changes else run
        for run in study.runs
    )
    problem = replace(study.manifest.problem, features=2000, optimum_loss=optimum_loss)
    return replace(study, runs=runs, manifest=replace(study.manifest, problem=problem))


FLOOR = {
    "scfl": [{"loss": loss, "coded_rows": 6000} for loss in (0.61, 0.62, 0.8)],
    "fl-ipw": [{"loss": loss} for loss in (0.51, 0.53, 0.55)],
}


def test_the_floor_is_quoted_as_medians_above_the_optimum() -> None:
    assert quote_floor(study_with(FLOOR)) == (
        "Measured here, without noise: d/c is 2,000/6,000, and SCFL ends with a loss 0.12 above "
        "the optimum's, FL-IPW 0.03 above it."
    )


def test_runs_that_diverged_have_no_floor() -> None:
    broken = {**FLOOR, "fl-ipw": [{"loss": None, "diverged": True}] * 3}
    assert quote_floor(study_with(broken)).endswith("0.12 above the optimum's.")
    assert quote_floor(study_with(FLOOR, optimum_loss=None)) == ""
    assert quote_floor(invent_study({"fl-ipw": climbs(1)})) == ""


def seen(smallest: Sequence[float], rate: float, diverged: int = 0) -> Study:
    return study_with(
        {
            "scfl": [
                {
                    "smallest_eigenvalue": value,
                    "parameters": {"learning_rate": rate},
                    "diverged": seed < diverged,
                }
                for seed, value in enumerate(smallest)
            ]
        }
    )


LEVELS = {
    None: study_with(FLOOR),
    1.2: seen([0.9, 0.8, 0.1], 12.0),
    0.1: seen([-28.4, -300.0, -5.0], 0.25, diverged=2),
}


def test_it_is_said_where_the_smallest_eigenvalue_turns_negative() -> None:
    assert quote_limit(LEVELS) == (
        "Measured here: the smallest eigenvalue, as the coded data tells it before training "
        "(median over seeds), is +0.8 at 1.2 bits (learning rate 12) and -28.4 at 0.1 bits "
        "(learning rate 0.25); 2 of 6 runs diverged."
    )
    assert quote_limit({None: study_with(FLOOR), 0.5: invent_study(BOTH)}) == ""


def test_claims_on_coding_carry_what_was_measured() -> None:
    curves = {one.key: one.because for one in claims_of_curves(LEVELS[None], [0.8], "apart")}
    budgets = {one.key: one.because for one in claims_of_budgets(LEVELS)}
    floor, limit = quote_floor(LEVELS[None]), quote_limit(LEVELS)
    assert curves["coding-helps"].endswith(floor)
    assert budgets["coding-pays"].endswith(floor)
    assert budgets["accuracy-falls"] == ""
    plain = invent_study({"codedfedl": climbs(1, 2), "scfl": climbs(3, 4)})
    comparable = {one.key: one.because for one in claims_of_curves(plain, [0.8], "apart")}
    assert "Measured" not in comparable["codedfedl-comparable"]
    rival = invent_study({**BOTH, "dp-cfl": climbs(1, 2, 3)})
    levels = {
        bits: replace(study, runs=(*study.runs, *rival.of("dp-cfl")))
        for bits, study in LEVELS.items()
    }
    (best,) = [claim for claim in claims_of_budgets(levels) if claim.key == "scfl-best"]
    assert best.because.endswith(f"keeps its model. {floor} {limit}")
