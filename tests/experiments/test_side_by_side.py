"""The tables behind the advice: read from what is expected, never stale in the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scfl.experiments.catalogue import Experiment, read_experiment
from scfl.experiments.side_by_side import compare, tell_guarantee, write_comparisons

CONFIG = """
figure = { kind = "curves", targets = [0.5] }
clock = { rounds = 1 }
[methods.scfl]
"""


def experiment(name: str, **numbers: float | None) -> Experiment:
    told: dict[str, Any] = {
        "numbers": {
            key.replace("__", " / ").replace("_", " "): {"value": value}
            for key, value in numbers.items()
        }
    }
    return read_experiment(CONFIG, name=name, expected=told)


def test_scores_stand_side_by_side_and_the_best_is_bold() -> None:
    first = experiment("one", scfl__accuracy=0.9, curvature__accuracy=0.95, optimum__accuracy=0.96)
    second = experiment("two", scfl__accuracy=None, stand_in__accuracy=0.5, scfl__loss=7.0)
    assert compare([first, second], "accuracy", best=max, digits=2).splitlines() == [
        "|  | [one](experiments/one.md) | [two](experiments/two.md) |",
        "| --- | --- | --- |",
        "| optimum | 0.96 |  |",
        "| scfl | 0.90 | never |",
        "| curvature | **0.95** |  |",
        "| stand in |  | **0.50** |",
    ]
    assert compare([], "accuracy", best=max, digits=2) == ""


def test_who_releases_no_code_is_the_same_at_every_guarantee() -> None:
    told = experiment(
        "cost",
        no_noise__scfl__accuracy=0.9,
        no_noise__momentum__accuracy=0.95,
        no_noise__scfl__loss=1.0,
        epsilon_8__scfl__accuracy=0.4,
    )
    assert tell_guarantee(told).splitlines() == [
        "| [cost](experiments/cost.md) | no noise | epsilon 8 |",
        "| --- | --- | --- |",
        "| momentum, no code | 0.9500 | 0.9500 |",
        "| scfl | 0.9000 | 0.4000 |",
    ]


def test_the_documentation_shows_what_is_expected() -> None:
    text = (Path(__file__).parents[2] / "docs" / "which-method.md").read_text("utf-8")
    for mark, table in write_comparisons().items():
        shown = text.partition(f"<!-- {mark} -->\n")[2].partition(f"<!-- /{mark} -->")[0]
        assert shown == table
