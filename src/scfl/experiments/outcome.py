"""What an experiment came to: verdicts, the numbers behind them, and whether both are as expected.

``expected.json`` holds, per edition, what came out when the documentation was made. The same seeds
give the same numbers on every machine but for rounding in its linear algebra, so tolerances are
small; a learning rate that wins by a hair may still be another elsewhere, and they leave room for
that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scfl.experiments.beyond import claims_beyond, count_rounds_to_scfl
from scfl.experiments.catalogue import Experiment
from scfl.experiments.claims import Claim, Judgement, assess
from scfl.experiments.grid import CellResult, collect_cells, judge_grid
from scfl.experiments.levels import Cell, Key, name_level
from scfl.experiments.section_five import (
    claims_of_budgets,
    claims_of_curves,
    final_accuracy,
    seconds_to,
)
from scfl.study.records import Study
from scfl.study.summary import CLOCKS, Clock, Spread, spread_over_seeds

# Accuracies may be off by so much, losses and seconds by such a share; seconds also by two looks.
_ACCURACY_WITHIN = {"full": 0.004, "quick": 0.01}
_SHARE_WITHIN = {"full": 0.05, "quick": 0.08}


@dataclass(frozen=True)
class LabelNumbers:
    """One label at one level, over its seeds."""

    label: str
    accuracy: Spread
    loss: Spread | None
    rate: float | None
    rate_at_edge: bool
    round_s: float
    setup_s: float
    seconds: Mapping[float, Spread]
    rounds: Mapping[str, Spread]
    mi_bits: float | None
    sigma: float | None
    epsilon: float | None
    smallest_eigenvalue: float | None
    diverged: int
    runs: int


@dataclass(frozen=True)
class Outcome:
    """Everything that the pictures, the page and the comparison with expectations show."""

    experiment: Experiment
    studies: Mapping[Key, Study]
    judgements: Mapping[Clock, tuple[Judgement, ...]]
    numbers: Mapping[Key, tuple[LabelNumbers, ...]]
    cells: tuple[CellResult, ...] = ()

    @property
    def first(self) -> Study:
        """The study that stands for all where they are alike: without noise, or without codes."""
        return next(iter(self.studies.values()))


def collect_outcome(experiment: Experiment, studies: Mapping[Key, Study]) -> Outcome:
    """Judge every claim and sum up every label."""
    cells = collect_cells(studies) if experiment.figure.kind == "grid" else ()
    return Outcome(
        experiment=experiment,
        studies=studies,
        judgements=_judge(experiment, studies, cells),
        numbers={
            key: tuple(_sum_up(study, label, experiment.figure.targets) for label in study.labels)
            for key, study in studies.items()
        },
        cells=cells,
    )


def _judge(
    experiment: Experiment, studies: Mapping[Key, Study], cells: tuple[CellResult, ...]
) -> dict[Clock, tuple[Judgement, ...]]:
    """On both clocks where time matters; a final accuracy is the same on either."""
    figure = experiment.figure
    if figure.kind == "grid":
        return {"apart": judge_grid(cells)}
    if figure.kind == "budget":
        budgets = {key: study for key, study in studies.items() if not isinstance(key, Cell)}
        claims = claims_of_budgets(budgets, figure.currency)
        return {"apart": tuple(assess(claim) for claim in claims)}
    study = studies[None]

    def claim(clock: Clock) -> list[Claim]:
        return [
            *claims_of_curves(study, figure.targets, clock),
            *claims_beyond(study, figure.targets, clock, near=figure.near),
        ]

    return {clock: tuple(assess(one) for one in claim(clock)) for clock in CLOCKS[::-1]}


def expect(outcome: Outcome) -> dict[str, Any]:
    """What a later run of the same edition should come to, with tolerances."""
    edition = outcome.experiment.edition
    clock = outcome.first.manifest.config["clock"]
    look_s, growth = clock.get("evaluate-every-s", 0.0), clock.get("evaluate-growth", 0.0)
    numbers = {}
    for name, value in _list_numbers(outcome):
        within = _ACCURACY_WITHIN[edition]
        if "accuracy" not in name.split(" / ")[-1].split()[0]:
            within = _SHARE_WITHIN[edition] * abs(value or 0.0)
        if name.split(" / ")[-1].startswith(("seconds", "rounds")):
            within += 2 * (look_s + growth * (value or 0.0))
        numbers[name] = {"value": _round(value), "within": _round(within)}
    return {"numbers": numbers, "verdicts": _list_verdicts(outcome)}


def compare_with_expected(outcome: Outcome, expected: Mapping[str, Any]) -> list[str]:
    """One sentence for everything that is not as expected."""
    found = dict(_list_numbers(outcome))
    wanted = expected["numbers"]
    said = [f"{name} was not computed" for name in wanted if name not in found]
    said += [f"{name} was not expected" for name in found if name not in wanted]
    for name, number in wanted.items():
        if name in found and not _agree(found[name], number["value"], number["within"]):
            said.append(
                f"{name} is {_say(found[name])}, expected {_say(number['value'])} "
                f"to within {_say(number['within'])}"
            )
    verdicts = _list_verdicts(outcome)
    for name, verdict in expected["verdicts"].items():
        if verdicts.get(name) != verdict:
            said.append(f"{name}: {verdicts.get(name)!r}, expected {verdict!r}")
    return said


def _sum_up(study: Study, label: str, targets: Sequence[float]) -> LabelNumbers:
    runs = study.of(label)
    whole = [run for run in runs if not run.diverged]

    def over(values: Sequence[float]) -> Spread | None:
        return spread_over_seeds(values, len(runs))

    def middle(values: Sequence[float]) -> float:
        found = over(values)
        return found.median if found is not None else math.nan

    def known(values: Sequence[float | None]) -> float | None:
        there = [value for value in values if value is not None]
        return middle(there) if there else None

    accuracy = over([final_accuracy(run) for run in runs])
    assert accuracy is not None  # a label exists because a run has it
    seconds = {
        target: over([seconds_to(run, target, "apart") for run in runs]) for target in targets
    }
    rate = runs[0].parameters.get("learning_rate")
    return LabelNumbers(
        label=label,
        accuracy=accuracy,
        loss=over([run.loss for run in whole if run.loss is not None]),
        rate=float(rate) if isinstance(rate, (int, float)) else None,
        rate_at_edge=runs[0].rate_at_edge,
        round_s=middle([run.training_time_s / max(run.rounds, 1) for run in runs]),
        setup_s=middle([run.setup_time_s for run in runs]),
        seconds={target: spread for target, spread in seconds.items() if spread is not None},
        rounds={
            where: spread
            for where, taken in count_rounds_to_scfl(study, label).items()
            if (spread := over(list(taken.values()))) is not None
        },
        mi_bits=known([run.privacy.get("mi_bits") for run in runs]),
        sigma=known([run.privacy.get("noise_sigma") for run in runs]),
        epsilon=known([run.privacy.get("coded_epsilon") for run in runs]),
        smallest_eigenvalue=known([run.smallest_eigenvalue for run in runs]),
        diverged=len(runs) - len(whole),
        runs=len(runs),
    )


def _list_numbers(outcome: Outcome) -> Iterator[tuple[str, float | None]]:
    for key, labels in outcome.numbers.items():
        level = [name_level(key, outcome.experiment.figure.currency)]
        level = level if len(outcome.numbers) > 1 else []
        for numbers in labels:
            where = " / ".join([*level, numbers.label])
            yield f"{where} / accuracy", numbers.accuracy.median
            if numbers.loss is not None and outcome.experiment.figure.kind == "curves":
                yield f"{where} / loss", numbers.loss.median
            times = {f"seconds to {goal:g}": spread for goal, spread in numbers.seconds.items()}
            for goal, spread in {**times, **numbers.rounds}.items():
                reached = math.isfinite(spread.median)
                yield f"{where} / {goal}", spread.median if reached else None
    optimum = outcome.first.manifest.problem.optimum_accuracy
    if optimum is not None:
        yield "optimum / accuracy", optimum


def _list_verdicts(outcome: Outcome) -> dict[str, str]:
    return {
        f"{judgement.claim.key} / {clock}": judgement.verdict
        for clock, judgements in outcome.judgements.items()
        for judgement in judgements
    }


def _agree(found: float | None, wanted: float | None, within: float) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return abs(found - wanted) <= within + 1e-12


def _say(value: float | None) -> str:
    return "never" if value is None else f"{value:.4g}"


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
