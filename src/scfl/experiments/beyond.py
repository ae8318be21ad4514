"""What we claim of the methods that go beyond the paper's, compared in recorded runs.

Where everybody stays, the question is how soon: in rounds, and in seconds on either clock, to the
accuracy that SCFL itself ends with, seed by seed, and to some that are the same for all seeds. A
rival is there as soon as its last iterate or its average is; ours has to be there with the model
that it has learned. Where clients are lost, the question is what is left at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scfl.experiments.claims import Claim, Comparison, Series, Unit
from scfl.experiments.section_five import final_accuracy
from scfl.experiments.sentences import REASONS, SENTENCES
from scfl.study.records import Run, Study
from scfl.study.summary import Clock

# How many times sooner than SCFL: in rounds, and in seconds without and with the setup.
_FEWER_ROUNDS_THAN_SCFL = 10.0
_SOONER_THAN_SCFL: Mapping[Clock, float] = {"apart": 10.0, "counted": 5.0}
_FEWER_ROUNDS_THAN_MOMENTUM = 2.0
# What "no worse" leaves room for, in accuracy.
_NO_WORSE = 0.002
_OURS = ("curvature", "resilient")
# Two evaluations of one model may differ in the last bits.
_ROUNDING = 1e-9


def claims_beyond(
    study: Study, targets: Sequence[float], clock: Clock, *, near: float
) -> list[Claim]:
    """What is claimed of curvature and resilient, as far as the study has what it takes.

    ``near`` is how far from the optimum's accuracy resilient may end.
    """
    ours = [label for label, method in study.methods.items() if method in _OURS]
    scfl = [label for label, method in study.methods.items() if method == "scfl"]
    momentum = [label for label in study.labels if _momentum(study, label)]
    fixed = {f"to {target:g}": dict.fromkeys(study.manifest.seeds, target) for target in targets}
    goals = {**_where_scfl_ends(study), **fixed}

    def sooner(rivals: Sequence[str], times: float, unit: Unit) -> tuple[Comparison, ...]:
        count = _count_rounds if unit == "rounds" else _read_clock(clock)
        return tuple(
            Comparison(
                what=f"{label}, {times:g} times as many {unit}, before {rival}",
                where=where,
                unit=unit,
                expected="less",
                first=_scale(_until(study, label, goal, count), times),
                second=_until(study, rival, goal, count),
                margin=0.0,
            )
            for label in ours
            for rival in rivals
            for where, goal in goals.items()
        )

    claims = [
        _claim("curvature-rounds", sooner(scfl, _FEWER_ROUNDS_THAN_SCFL, "rounds")),
        _claim("curvature-sooner", sooner(scfl, _SOONER_THAN_SCFL[clock], "seconds")),
        _claim("curvature-momentum", sooner(momentum, _FEWER_ROUNDS_THAN_MOMENTUM, "rounds")),
    ]
    if _loses_clients(study):
        claims = [_claim("resilient-best", _against_all(study))]
    claims += [
        _claim("resilient-no-worse", _against_all(study, handicap=_NO_WORSE)),
        _claim("resilient-near", _near_optimum(study, near)),
    ]
    return [claim for claim in claims if claim.comparisons]


def count_rounds_to_scfl(study: Study, label: str) -> dict[str, Series]:
    """The rounds that a label takes to each place where an SCFL ends, if everybody stays.

    Nothing where no method of ours is compared.
    """
    asked = not _loses_clients(study) and any(one in _OURS for one in study.methods.values())
    goals = _where_scfl_ends(study) if asked else {}
    return {
        f"rounds {where}": _until(study, label, goal, _count_rounds)
        for where, goal in goals.items()
    }


def _loses_clients(study: Study) -> bool:
    law: str = study.manifest.config.get("availability", {}).get("kind", "always")
    return law != "always"


def _where_scfl_ends(study: Study) -> dict[str, Series]:
    """The accuracy that every SCFL ends with, seed by seed; one that diverged is no goal."""
    return {
        f"to where {label} ends": {
            run.seed: final_accuracy(run) for run in study.of(label) if not run.diverged
        }
        for label, method in study.methods.items()
        if method == "scfl"
    }


def _against_all(study: Study, *, handicap: float = 0.0) -> tuple[Comparison, ...]:
    """The final accuracy of resilient against that of every other method."""
    resilient = [label for label, method in study.methods.items() if method == "resilient"]
    return tuple(
        Comparison(
            what=f"{label} {'no worse than' if handicap else 'above'} {other}",
            where="at the end",
            unit="accuracy",
            expected="more",
            first={seed: value + handicap for seed, value in _finals(study, label).items()},
            second=_finals(study, other),
            margin=0.0 if handicap else None,
        )
        for label in resilient
        for other in study.labels
        # One upload of exact sums has nobody left to lose.
        if other != label and study.methods[other] != "one-shot"
    )


def _near_optimum(study: Study, near: float) -> tuple[Comparison, ...]:
    best = study.manifest.problem.optimum_accuracy
    if best is None:
        return ()
    return tuple(
        Comparison(
            what=f"{label} within {near:g} of the least-squares optimum",
            where="at the end",
            unit="accuracy",
            expected="more",
            first=_finals(study, label),
            second=dict.fromkeys(_finals(study, label), best - near),
            margin=0.0,
        )
        for label, method in study.methods.items()
        if method == "resilient"
    )


def _until(
    study: Study,
    label: str,
    goal: Series,
    count: Callable[[Run, int], float],
) -> Series:
    """What each seed's run takes until it is as accurate as its goal, infinity if it never is.

    A method of ours has to get there with what it learned, any other with either iterate.
    """
    taken, either = {}, study.methods[label] not in _OURS
    for run in study.of(label):
        if run.seed not in goal:
            continue
        accuracy = run.trace.accuracy
        if either:
            accuracy = np.maximum(run.trace.accuracy_last, run.trace.accuracy_average)
        met = np.flatnonzero(accuracy >= goal[run.seed] - _ROUNDING)
        there = met.size > 0 and not run.diverged
        taken[run.seed] = count(run, int(met[0])) if there else math.inf
    return taken


def _count_rounds(run: Run, look: int) -> float:
    return float(run.trace.round[look])


def _read_clock(clock: Clock) -> Callable[[Run, int], float]:
    def read(run: Run, look: int) -> float:
        setup = run.setup_time_s if clock == "counted" else 0.0
        return setup + float(run.trace.training_time_s[look])

    return read


def _scale(series: Series, times: float) -> Series:
    return {seed: times * value for seed, value in series.items()}


def _finals(study: Study, label: str) -> Series:
    return {run.seed: final_accuracy(run) for run in study.of(label)}


def _momentum(study: Study, label: str) -> bool:
    return bool(study.of(label)[0].parameters.get("momentum"))


def _claim(key: str, comparisons: tuple[Comparison, ...]) -> Claim:
    return Claim(key, SENTENCES[key], comparisons, REASONS.get(key, ""))
