"""What the experiments on methods of our own came to, side by side: the tables behind the advice.

Everything is read from what is expected of the experiments, so that a table is renewed with them:
``docs/publish.py`` puts the tables into docs/which-method.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scfl.experiments.catalogue import Experiment, load_experiment
from scfl.experiments.markdown import tabulate

ROUNDS = "rounds to where scfl ends"
# What each table shows, in the order of its columns or tables.
SPEED = (
    "speed-mnist",
    "speed-noise-mnist",
    "speed-fashion-mnist",
    "speed-noise-fashion-mnist",
    "speed-digits",
)
ENDS = (
    "departures-mnist",
    "departures-noise-mnist",
    "outages-mnist",
    "departures-fashion-mnist",
    "departures-noise-fashion-mnist",
    "outages-fashion-mnist",
    "departures-digits",
    "noise-digits",
    "outages-digits",
)
GUARANTEES = ("privacy-mnist", "privacy-fashion-mnist")
GRIDS = ("grid-mnist", "grid-fashion-mnist", "grid-digits")
_OPTIMUM = "optimum"


def read_number(name: str, score: str, label: str) -> float | None:
    """One number of a published experiment; None where a label never gets there."""
    expected = load_experiment(name).expected
    assert expected is not None
    value: float | None = expected["numbers"][f"{label} / {score}"]["value"]
    return value


def write_comparisons() -> dict[str, str]:
    """Each table by name, as Markdown; experiments that nobody has published are left out."""
    tables = {
        "speed": compare(_published(SPEED), ROUNDS, best=min, digits=0),
        "ends": compare(_published(ENDS), "accuracy", best=max, digits=4),
        "guarantees": "\n".join(tell_guarantee(each) for each in _published(GUARANTEES)),
        "grids": _tell_grids(_published(GRIDS)),
    }
    makers = {"speed": SPEED, "ends": ENDS, "guarantees": GUARANTEES, "grids": GRIDS}
    return {name: table or _name_makers(makers[name]) for name, table in tables.items()}


def _name_makers(names: Sequence[str]) -> str:
    """What to say where nothing is published yet."""
    listed = ", ".join(f"`scfl figure {name}`" for name in names)
    return f"Not published yet; made by {listed}.\n"


def _published(names: Sequence[str]) -> list[Experiment]:
    loaded = [load_experiment(name) for name in names]
    return [experiment for experiment in loaded if experiment.expected is not None]


def compare(
    experiments: Sequence[Experiment],
    score: str,
    *,
    best: Callable[[list[float]], float],
    digits: int,
) -> str:
    """One score of every method in every experiment; the best is bold, the optimum comes first."""
    columns = [_read_column(experiment, score) for experiment in experiments]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    labels.sort(key=lambda label: label != _OPTIMUM)
    rows = [
        [label, *(_cell(column, label, best=best, digits=digits) for column in columns)]
        for label in labels
    ]
    return _write(["", *(_link(experiment) for experiment in experiments)], rows)


def _read_column(experiment: Experiment, score: str) -> dict[str, float | None]:
    assert experiment.expected is not None
    numbers: Mapping[str, Any] = experiment.expected["numbers"]
    found = {}
    for name, number in numbers.items():
        label, _, rest = name.partition(" / ")
        if rest == score:
            found[label] = number["value"]
    return found


def _cell(
    column: Mapping[str, float | None],
    label: str,
    *,
    best: Callable[[list[float]], float],
    digits: int,
) -> str:
    if label not in column:
        return ""
    value = column[label]
    if value is None:
        return "never"
    # One upload of exact sums is no training, and the optimum is nobody's.
    apart = (_OPTIMUM, "one-shot")
    rivals = [other for name, other in column.items() if other is not None and name not in apart]
    text = f"{value:.{digits}f}"
    return f"**{text}**" if label not in apart and value == best(rivals) else text


def tell_guarantee(experiment: Experiment) -> str:
    """Accuracies by budget; what releases no code is the same at all of them."""
    assert experiment.expected is not None
    levels: dict[str, dict[str, float]] = {}
    for name, number in experiment.expected["numbers"].items():
        parts = name.split(" / ")
        if len(parts) == 3 and parts[2] == "accuracy":
            levels.setdefault(parts[0], {})[parts[1]] = number["value"]
    bare = next(iter(levels.values()))
    coded = {label for level in list(levels.values())[1:] for label in level}
    rows = [
        [label, *(f"{level[label]:.4f}" if label in level else "" for level in levels.values())]
        for label in sorted(bare, key=lambda label: label in coded)
    ]
    for row in rows:
        if row[0] not in coded:
            row[:] = [f"{row[0]}, no code", *[row[1]] * len(levels)]
    return _write([_link(experiment), *levels], rows)


def _tell_grids(experiments: Sequence[Experiment]) -> str:
    """The verdicts on every cell, grid by grid."""
    lines = []
    for experiment in experiments:
        assert experiment.expected is not None
        verdicts = experiment.expected["verdicts"]
        keys = {
            "nothing of ours diverges": "grid-sound / apart",
            "resilient within 0.002 of the best": "grid-no-worse / apart",
            "nothing lost after departures": "grid-keeps / apart",
        }
        told = "; ".join(f"{words}: {verdicts[key]}" for words, key in keys.items())
        lines.append(f"- {_link(experiment)}: {told}\n")
    return "".join(lines)


def _link(experiment: Experiment) -> str:
    return f"[{experiment.name}](experiments/{experiment.name}.md)"


def _write(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"{line}\n" for line in tabulate(heads, rows)) if rows else ""
