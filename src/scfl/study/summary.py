"""What a study shows, per label over its seeds: the numbers of the table and of the report.

A run that diverged never reaches a target and has no final score; it is counted instead. A target
is reached at the first evaluation that meets it. Medians treat "not reached" as later than any
time. Both clocks are always computed: ``counted`` starts when the setup (encoding and upload of
coded data) starts, ``apart`` when training starts, as the paper does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scfl.core.parameter import Requirements
from scfl.study.records import Run, Study

Clock = Literal["counted", "apart"]
CLOCKS: tuple[Clock, Clock] = ("counted", "apart")

# From so many seeds on, quantiles say more about the spread than the extremes do.
_SEEDS_FOR_QUANTILES = 10
# The target is this share of the way to the best final result.
_TARGET_SHARE = 0.97
# Scores computed in different orders may differ in the last bits.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Spread:
    """A median and its band over seeds; see ``band_name`` for what the band is."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Target:
    """What "fast" is measured to: an accuracy to reach or a loss to get below."""

    metric: Literal["accuracy", "loss"]
    value: float
    rule: str

    @property
    def wording(self) -> str:
        digits = f"{self.value:.3f}".rstrip("0")
        text = f"{self.value:.3g}" if self.metric == "loss" else digits.ljust(4, "0")
        return f"{self.metric} {text}"


@dataclass(frozen=True)
class Reach:
    """When each seed's run reached the target (infinity: never), and over all of them."""

    times_s: Mapping[int, float]
    spread: Spread

    @property
    def reached(self) -> int:
        return sum(math.isfinite(time) for time in self.times_s.values())


@dataclass(frozen=True)
class SpeedUp:
    """The reference's time over this label's, seed by seed; pairs that both fail are left out."""

    spread: Spread
    pairs: int
    ahead: int


@dataclass(frozen=True)
class LabelSummary:
    """One label over its seeds. What only finished runs have is None when all diverged."""

    label: str
    method: str
    runs: int
    diverged: int
    learned: str
    accuracy: Spread | None
    loss: Spread | None
    accuracy_last: Spread | None
    accuracy_average: Spread | None
    rounds: Spread | None
    setup_s: Spread
    bytes_up: Spread | None
    bytes_down: Spread | None
    setup_bytes_up: Spread
    reach: Mapping[Clock, Reach] | None
    speed_up: Mapping[Clock, SpeedUp | None]

    def score(self, metric: str) -> Spread | None:
        return self.accuracy if metric == "accuracy" else self.loss


@dataclass(frozen=True)
class Summary:
    """A whole study. ``target`` and ``reference`` are None when nothing can be compared."""

    metric: Literal["accuracy", "loss"]
    labels: tuple[LabelSummary, ...]
    target: Target | None
    reference: str | None
    seeds: int
    band_name: str
    clock: Literal["virtual", "wall"] = "virtual"

    @property
    def has_setup(self) -> bool:
        return any(label.setup_s.high > 0 for label in self.labels)


def summarise(
    study: Study, *, target: float | None = None, reference: str | None = None
) -> Summary:
    """Aggregate a study; what is not given follows from its configuration, else from its data."""
    runs = {label: study.of(label) for label in study.labels}
    with Requirements() as require:
        if reference is not None:
            require.choice("reference", reference, study.labels)
        if target is not None:
            accuracy = study.manifest.problem.task == "classification"
            require.number("target", target, above=0, at_most=1 if accuracy else None)
    seeds = max((len(group) for group in runs.values()), default=0)
    band = _band(seeds)
    goal = _target(study, runs, target)
    reach = {
        label: None
        if goal is None
        else {clock: _reach(group, goal, clock, band) for clock in CLOCKS}
        for label, group in runs.items()
    }
    chosen = reference or _reference(runs, reach)
    return Summary(
        metric="accuracy" if study.manifest.problem.task == "classification" else "loss",
        labels=tuple(
            _label(label, group, reach[label], reach.get(chosen or ""), band)
            for label, group in runs.items()
        ),
        target=goal,
        reference=chosen,
        seeds=seeds,
        band_name=_band_name(seeds),
        clock=study.manifest.clock,
    )


def spread_over_seeds(values: Iterable[float], seeds: int) -> Spread | None:
    """The median and the band that suits the number of seeds; infinity is allowed."""
    return _spread(values, _band(seeds))


def time_to_target(run: Run, target: Target, clock: Clock) -> float:
    """Seconds until a run first meets the target, infinity if it never does or diverges."""
    trace = run.trace
    if target.metric == "accuracy":
        met = trace.accuracy >= target.value - _ROUNDING
    else:
        met = trace.loss <= target.value * (1 + _ROUNDING)
    if run.diverged or not met.any():
        return math.inf
    setup = run.setup_time_s if clock == "counted" else 0.0
    return setup + float(trace.training_time_s[int(np.argmax(met))])


Band = tuple[float, float]


def _band(seeds: int) -> Band:
    return (0.05, 0.95) if seeds >= _SEEDS_FOR_QUANTILES else (0.0, 1.0)


def _band_name(seeds: int) -> str:
    if seeds <= 1:
        return "one seed, no band" if seeds else "no run"
    if seeds >= _SEEDS_FOR_QUANTILES:
        return f"median and the 5% to 95% range over {seeds} seeds"
    return f"median and the smallest to largest of {seeds} seeds"


def _spread(values: Iterable[float], band: Band) -> Spread | None:
    ordered = sorted(values)
    if not ordered:
        return None
    low, median, high = (_quantile(ordered, share) for share in (band[0], 0.5, band[1]))
    return Spread(median, low, high, len(ordered))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between neighbours, as usual, but defined when some values are infinite."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    part = place - below
    if part < _ROUNDING or ordered[below] == ordered[min(below + 1, len(ordered) - 1)]:
        return ordered[below]
    return ordered[below] + part * (ordered[below + 1] - ordered[below])


def _label(
    label: str,
    runs: Sequence[Run],
    reach: Mapping[Clock, Reach] | None,
    reference: Mapping[Clock, Reach] | None,
    band: Band,
) -> LabelSummary:
    whole = [run for run in runs if not run.diverged]

    def over(value: Callable[[Run], float | None]) -> Spread | None:
        return _spread((number for run in whole if (number := value(run)) is not None), band)

    def always(value: Callable[[Run], float]) -> Spread:
        found = _spread(map(value, runs), band)
        assert found is not None  # a label exists because a run has it
        return found

    speed_up: dict[Clock, SpeedUp | None] = dict.fromkeys(CLOCKS)
    if reach is not None and reference is not None:
        speed_up = {clock: _speed_up(reach[clock], reference[clock], band) for clock in CLOCKS}
    return LabelSummary(
        label=label,
        method=runs[0].method,
        runs=len(runs),
        diverged=len(runs) - len(whole),
        learned=runs[0].learned,
        accuracy=over(lambda run: run.accuracy),
        loss=over(lambda run: run.loss),
        accuracy_last=over(lambda run: run.accuracy_last),
        accuracy_average=over(lambda run: run.accuracy_average),
        rounds=over(lambda run: run.rounds),
        setup_s=always(lambda run: run.setup_time_s),
        bytes_up=over(lambda run: run.bytes_up),
        bytes_down=over(lambda run: run.bytes_down),
        setup_bytes_up=always(lambda run: run.setup_bytes_up),
        reach=reach,
        speed_up=speed_up,
    )


def _reach(runs: Sequence[Run], target: Target, clock: Clock, band: Band) -> Reach:
    times = {run.seed: time_to_target(run, target, clock) for run in runs}
    spread = _spread(times.values(), band)
    assert spread is not None
    return Reach(times, spread)


def _speed_up(own: Reach, reference: Reach, band: Band) -> SpeedUp | None:
    ratios = []
    ahead = 0
    for seed, time in own.times_s.items():
        other = reference.times_s.get(seed, math.inf)
        if seed not in reference.times_s or (math.isinf(time) and math.isinf(other)):
            continue
        ahead += time < other
        ratios.append(1.0 if time == other else math.inf if time == 0 else other / time)
    spread = _spread(ratios, band)
    return None if spread is None else SpeedUp(spread, len(ratios), ahead)


def _target(study: Study, runs: Mapping[str, Sequence[Run]], given: float | None) -> Target | None:
    classification = study.manifest.problem.task == "classification"
    metric: Literal["accuracy", "loss"] = "accuracy" if classification else "loss"
    asked = study.manifest.config.get("report") or {}
    given = asked.get(f"target-{metric}") if given is None else given
    if given is not None:
        return Target(metric, float(given), "as asked for") if runs else None
    finals = []
    for group in runs.values():
        scores = [run.accuracy if classification else run.loss for run in group if not run.diverged]
        spread = _spread((score for score in scores if score is not None), (0, 1))
        finals += [] if spread is None else [spread.median]
    if not finals:
        return None
    if classification:
        value = math.floor(_TARGET_SHARE * max(finals) * 100 + _ROUNDING) / 100
        return Target(metric, value, "97% of the best final accuracy, rounded down")
    starts = [run.trace.loss[0] for group in runs.values() for run in group if run.trace.loss.size]
    begin = float(np.median(starts)) if starts else min(finals)
    value = min(finals) + (1 - _TARGET_SHARE) * max(begin - min(finals), 0.0)
    return Target(
        metric,
        _round_up(value),
        "97% of the way from the untrained model's loss to the best final loss, rounded up",
    )


def _round_up(value: float) -> float:
    """To three digits, never down: a target that the best method just meets stays met."""
    if value <= 0 or not math.isfinite(value):
        return value
    places = 2 - math.floor(math.log10(value))
    return float(round(math.ceil(value * 10.0**places - _ROUNDING) / 10.0**places, max(places, 0)))


def _reference(
    runs: Mapping[str, Sequence[Run]], reach: Mapping[str, Mapping[Clock, Reach] | None]
) -> str | None:
    """FedAvg if it is there, else the slowest that gets there at all: a ratio needs a time."""
    for label, group in runs.items():
        if group[0].method == "fedavg":
            return label
    medians = {
        label: found["counted"].spread.median for label, found in reach.items() if found is not None
    }
    arrived = {label: time for label, time in medians.items() if math.isfinite(time)}
    return max(arrived, key=lambda label: arrived[label]) if arrived else next(iter(runs), None)
