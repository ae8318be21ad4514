"""What we claim of the methods that go beyond the paper's, compared in recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scfl.experiments.claims import Claim, Comparison, Series
from scfl.experiments.section_five import final_accuracy, seconds_to
from scfl.experiments.sentences import REASONS, SENTENCES
from scfl.study.records import Study
from scfl.study.summary import Clock

# How many times sooner than SCFL, with the setup left out and with it counted.
_SOONER_THAN_SCFL: Mapping[Clock, float] = {"apart": 10.0, "counted": 5.0}
_SOONER_THAN_MOMENTUM = 2.0
# What "no worse" and "near the optimum" leave room for, in accuracy.
_NO_WORSE, _NEAR = 0.002, 0.010
_OURS = ("curvature", "resilient")


def claims_beyond(study: Study, targets: Sequence[float], clock: Clock) -> list[Claim]:
    """What is claimed of curvature and resilient, as far as the study has what it takes."""
    ours = [label for label, method in study.methods.items() if method in _OURS]
    scfl = [label for label, method in study.methods.items() if method == "scfl"]
    momentum = [label for label in study.labels if _momentum(study, label)]
    leaving = study.manifest.config.get("availability", {}).get("kind", "always") != "always"

    def sooner(rivals: Sequence[str], times: float) -> tuple[Comparison, ...]:
        return tuple(
            Comparison(
                what=f"{label}, {times:g} times as long, before {rival}",
                where=f"to {target:g}",
                unit="seconds",
                expected="less",
                first=_scale(_times(study, label, target, clock), times),
                second=_times(study, rival, target, clock),
                margin=0.0,
            )
            for label in ours
            for rival in rivals
            for target in targets
        )

    claims = [
        _claim("curvature-sooner", () if leaving else sooner(scfl, _SOONER_THAN_SCFL[clock])),
        _claim("curvature-momentum", () if leaving else sooner(momentum, _SOONER_THAN_MOMENTUM)),
        _claim("resilient-no-worse", _against_all(study, handicap=_NO_WORSE)),
        _claim("resilient-best", _against_all(study) if leaving else ()),
        _claim("resilient-near", _near_optimum(study)),
    ]
    return [claim for claim in claims if claim.comparisons]


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


def _near_optimum(study: Study) -> tuple[Comparison, ...]:
    best = study.manifest.problem.optimum_accuracy
    if best is None:
        return ()
    return tuple(
        Comparison(
            what=f"{label} within {_NEAR:g} of the least-squares optimum",
            where="at the end",
            unit="accuracy",
            expected="more",
            first=_finals(study, label),
            second=dict.fromkeys(_finals(study, label), best - _NEAR),
            margin=0.0,
        )
        for label, method in study.methods.items()
        if method == "resilient"
    )


def _times(study: Study, label: str, target: float, clock: Clock) -> Series:
    return {run.seed: seconds_to(run, target, clock) for run in study.of(label)}


def _scale(series: Series, times: float) -> Series:
    return {seed: times * value for seed, value in series.items()}


def _finals(study: Study, label: str) -> Series:
    return {run.seed: final_accuracy(run) for run in study.of(label)}


def _momentum(study: Study, label: str) -> bool:
    return bool(study.of(label)[0].parameters.get("momentum"))


def _claim(key: str, comparisons: tuple[Comparison, ...]) -> Claim:
    return Claim(key, SENTENCES[key], comparisons, REASONS.get(key, ""))
