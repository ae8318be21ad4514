"""Run an experiment: its studies one after another, then the pictures, the verdicts, the page.

    OUT/studies/<level>/      ordinary output folders of studies, each with a report of its own
    OUT/<name>.md, *.svg      the page and its pictures
    OUT/expected.json         what came out, as expectations for the next run
    OUT/timing.json           what it took so far, over all calls

Finished runs are kept, so an interrupted experiment goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scfl.errors import OutputError
from scfl.experiments.catalogue import Experiment
from scfl.experiments.grid import ROOM
from scfl.experiments.levels import Cell, Currency, Key
from scfl.experiments.outcome import Outcome, collect_outcome, compare_with_expected, expect
from scfl.experiments.page import write_page
from scfl.experiments.section_five import final_accuracy
from scfl.report.curves import Metric
from scfl.report.experiment_figures import CLOCK_WORDS, Point, draw_budgets, draw_curves, spread_of
from scfl.report.grid_figure import Field, draw_grid
from scfl.report.html import write_report
from scfl.study.folder import to_json
from scfl.study.records import Study, load_study
from scfl.study.run import OnDone, check_study, run_study
from scfl.study.summary import Clock

CURRENCIES: Mapping[Currency, str] = {
    "printed": "privacy budget as printed in the paper (bits)",
    "exact": "exact epsilon of one row of coded data, delta = {delta:g}",
}


@dataclass(frozen=True)
class Finished:
    """What an experiment left behind. ``surprises`` is None where nothing was expected."""

    outcome: Outcome
    page: Path
    pictures: tuple[Path, ...]
    timing: Mapping[str, Any]
    surprises: list[str] | None


def run_experiment(
    experiment: Experiment,
    out: Path,
    *,
    jobs: int = 1,
    on_start: Callable[[int], None] | None = None,
    on_done: OnDone | None = None,
    on_more: Callable[[int], None] | None = None,
) -> Finished:
    """Do what is missing of every study, then draw, judge and compare with expectations.

    ``on_start`` is told the number of runs once everything has been found sound, ``on_more`` how
    many a search that goes beyond its list adds.
    """
    timing = _read_timing(out)
    ready = [(level, check_study(level.study)) for level in experiment.levels]
    if on_start is not None:
        on_start(sum(each.runs for _, each in ready))
    for level, each in ready:
        folder = out / "studies" / level.name
        began = time.monotonic()
        run_study(each, folder, jobs=jobs, on_done=on_done, on_more=on_more)
        spent = json.loads((folder / "manifest.json").read_text("utf-8"))["cpu_time_s"]
        # A call that finds everything done is no part of what the experiment takes.
        if spent:
            timing["cpu_s"] += spent
            timing["wall_s"] += time.monotonic() - began
            timing["jobs"] = jobs
        _write(out / "timing.json", to_json(timing))
    studies = {level.key: load_study(out / "studies" / level.name) for level in experiment.levels}
    if experiment.figure.kind != "grid":
        for study in studies.values():
            write_report(study.folder)
    outcome = collect_outcome(experiment, studies)
    pictures = _draw(outcome, out)
    page = out / f"{experiment.name}.md"
    _write(page, write_page(outcome, pictures, timing).encode())
    _write(out / "expected.json", to_json({experiment.edition: _expectations(outcome, timing)}))
    surprises = None
    if experiment.expected is not None:
        surprises = compare_with_expected(outcome, experiment.expected)
    return Finished(outcome, page, tuple(path for path, _ in pictures), timing, surprises)


def _draw(outcome: Outcome, out: Path) -> list[tuple[Path, str]]:
    """The pictures of an experiment, and what each shows."""
    name, bare = outcome.experiment.name, outcome.first
    if outcome.experiment.figure.kind == "grid":
        return [_draw_grid(outcome, out / f"{name}.svg")]
    if outcome.experiment.figure.currency == "exact":
        return [_draw_budgets(outcome, out / f"{name}.svg", "exact")]
    if outcome.experiment.figure.kind == "budget":
        pictures = [_draw_budgets(outcome, out / f"{name}.svg", "printed")]
        if any(each.epsilon for labels in outcome.numbers.values() for each in labels):
            pictures.append(_draw_budgets(outcome, out / f"{name}-exact.svg", "exact"))
        return pictures
    shown: list[tuple[Metric, Clock]] = [
        ("accuracy", "apart"),
        ("loss", "apart"),
        ("accuracy", "counted"),
        ("loss", "counted"),
    ]
    return [
        (
            draw_curves(bare, out / f"{name}-{metric}-{clock}.svg", metric=metric, clock=clock),
            f"{metric.capitalize()} against virtual time, {CLOCK_WORDS[clock]}",
        )
        for metric, clock in shown
    ]


def _draw_grid(outcome: Outcome, path: Path) -> tuple[Path, str]:
    panels: dict[str, dict[tuple[float, int], Field]] = {}
    for result in outcome.cells:
        assert result.cell.noise is not None
        assert result.cell.rows is not None
        field = Field(result.accuracies[result.label], result.lead, result.rival)
        name = str(Cell(result.cell.share))
        panels.setdefault(name, {})[result.cell.noise, result.cell.rows] = field
    title = f"resilient on {outcome.first.manifest.problem.name}"
    drawn = draw_grid(panels, path, title=title, room=ROOM)
    return drawn, "Resilient's accuracy in every cell, and how far above the best other it is"


def _draw_budgets(outcome: Outcome, path: Path, currency: Currency) -> tuple[Path, str]:
    bare = outcome.first
    epsilons = {
        (key, each.label): each.epsilon
        for key, labels in outcome.numbers.items()
        for each in labels
    }
    noisy = {label for key, study in outcome.studies.items() if key for label in study.labels}
    points = {
        label: [
            Point(
                budget=epsilons[key, label] if currency == "exact" else _budget(key),
                accuracy=spread_of(study.of(label), final_accuracy),
                diverged=sum(run.diverged for run in study.of(label)),
            )
            for key, study in outcome.studies.items()
        ]
        for label in bare.labels
        if label in noisy
    }
    flat = {
        label: spread_of(bare.of(label), final_accuracy)
        for label in bare.labels
        if label not in noisy
    }
    problem = bare.manifest.problem
    drawn = draw_budgets(
        points,
        flat,
        bare.methods,
        path,
        title=f"{problem.name}, after {_horizon(bare)}",
        axis=CURRENCIES[currency].format(delta=bare.manifest.config["privacy"].get("delta", 0)),
        chance=_chance(bare),
        optimum=problem.optimum_accuracy,
    )
    return drawn, f"Final accuracy against the {currency} privacy budget"


def _budget(key: Key) -> float | None:
    assert not isinstance(key, Cell)
    return key


def _horizon(study: Study) -> str:
    clock = study.manifest.config["clock"]
    seconds = clock.get("horizon-s")
    return f"{clock['rounds']:,} rounds" if seconds is None else f"{seconds:,.0f} virtual seconds"


def _chance(study: Study) -> float:
    """What the model that nobody has trained yet gets right."""
    return float(study.runs[0].trace.accuracy[0])


def _expectations(outcome: Outcome, timing: Mapping[str, Any]) -> dict[str, Any]:
    return {"took": {key: round(float(timing[key]), 1) for key in timing}, **expect(outcome)}


def _read_timing(out: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((out / "timing.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {"cpu_s": 0.0, "wall_s": 0.0, "jobs": 0}
    return found


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror})") from None
