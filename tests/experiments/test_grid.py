"""Grids of studies: claims on made-up cells, and the smallest real one from file to page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scfl.core.availability import Always, Departures
from scfl.errors import ConfigError
from scfl.experiments.catalogue import read_experiment
from scfl.experiments.grid import collect_cells, judge_grid
from scfl.experiments.levels import Cell, Key
from scfl.experiments.run import Finished, run_experiment
from scfl.study.records import Study
from tests.invented_study import Past, invent_study

GRID = """
seeds = 2
[figure]
kind = "grid"
title = "A small grid"
shares = [0.0, 0.5]
noises = [0.0, 3.0]
rows = [20]
[problem]
dataset = "digits"
features = { dimensions = 40, width = 1.5 }
[partition]
clients = 4
[availability]
kind = "departures"
at-s = 1
[clock]
horizon-s = 3
evaluate-every-s = 0.5
setup = "apart"
[search]
learning-rates = [1.0]
[defaults]
batches = { subsets = 4 }
[methods.fl-ipw]
[methods.scfl]
learned = "last"
[methods.resilient]
"""


def study(share: float, **accuracies: tuple[float, float]) -> Study:
    """Runs that stood at the first number when clients left, at 10 s, and end at the second."""
    made = invent_study(
        {
            label.replace("_", "-"): [Past([0.0, 10.0, 20.0], [0.1, *each])] * 3
            for label, each in accuracies.items()
        }
    )
    law = {"kind": "departures", "share": share, "at-s": 10.0} if share else {"kind": "always"}
    config: dict[str, Any] = {**made.manifest.config, "availability": law}
    return replace(made, manifest=replace(made.manifest, config=config))


def grid(resilient: tuple[float, float] = (0.9, 0.9), scfl: float = 0.8) -> dict[Key, Study]:
    return {
        Cell(0.0): study(0.0, fl_ipw=(0.9, 0.9)),
        Cell(0.0, 1.0, 5): study(0.0, scfl=(0.9, 0.9), resilient=(0.9, 0.9)),
        Cell(0.3): study(0.3, fl_ipw=(0.9, 0.5)),
        Cell(0.3, 1.0, 5): study(0.3, scfl=(0.9, scfl), resilient=resilient),
    }


def verdicts(studies: dict[Key, Study]) -> dict[str, str]:
    return {one.claim.key: one.verdict for one in judge_grid(collect_cells(studies))}


def test_a_claim_holds_where_it_holds_in_every_cell() -> None:
    assert verdicts(grid()) == dict.fromkeys(
        ("grid-sound", "grid-no-worse", "grid-keeps"), "reproduced"
    )


def test_where_a_rival_is_better_is_named() -> None:
    found = verdicts(grid((0.85, 0.85), scfl=0.86))
    place = "30% leave, noise 1, 5 coded rows"
    assert found["grid-no-worse"] == f"reproduced except where {place} (scfl by 0.0100)"
    assert found["grid-keeps"] == "reproduced"
    assert verdicts(grid((0.86, 0.858), scfl=0.86))["grid-no-worse"] == "reproduced"


def test_what_was_reached_before_a_departure_must_be_kept() -> None:
    found = verdicts(grid((0.9, 0.85)))
    assert found["grid-keeps"] == "not reproduced"
    assert found["grid-no-worse"] == "reproduced"


def test_rivals_without_codes_count_in_every_cell_of_their_share() -> None:
    cells = {result.cell: result for result in collect_cells(grid())}
    assert set(cells) == {Cell(0.0, 1.0, 5), Cell(0.3, 1.0, 5)}
    assert cells[Cell(0.3, 1.0, 5)].accuracies["fl-ipw"] == pytest.approx(0.5)
    assert cells[Cell(0.3, 1.0, 5)].rival == "scfl"
    assert cells[Cell(0.3, 1.0, 5)].lead == pytest.approx(0.1)


def test_divergence_of_ours_is_told_and_that_of_others_is_not() -> None:
    studies = grid()
    place = Cell(0.3, 1.0, 5)
    for label, verdict in (("resilient", "except"), ("scfl", "reproduced")):
        runs = tuple(
            replace(run, diverged=run.label == label or run.diverged) for run in studies[place].runs
        )
        found = verdicts({**studies, place: replace(studies[place], runs=runs)})
        assert verdict in found["grid-sound"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return run_experiment(read_experiment(GRID, name="small"), tmp_path_factory.mktemp("grid"))


def test_every_cell_is_a_study_with_its_own_noise_and_departures() -> None:
    levels = {level.key: level.study for level in read_experiment(GRID, name="small").levels}
    assert list(levels) == [
        Cell(share, *code) for share in (0.0, 0.5) for code in ((), (0.0, 20), (3.0, 20))
    ]
    assert list(levels[Cell(0.5)].methods) == ["fl-ipw"]
    assert levels[Cell(0.0)].availability == Always()
    there = levels[Cell(0.5, 3.0, 20)]
    assert there.availability == Departures(share=0.5, at_s=1)
    assert list(there.methods) == ["scfl", "resilient"]
    assert {(m.noise, m.coded_rows) for m in there.methods.values()} == {(3.0, 20)}  # type: ignore[attr-defined]


def test_the_page_has_every_cell_and_the_picture_says_it_in_words(finished: Finished) -> None:
    page = finished.page.read_text("utf-8")
    assert page.count("| 50% | ") == 2
    assert "| leave | noise | coded rows | scfl | resilient | fl-ipw | resilient since |" in page
    assert "Medians over 2 seeds." in page
    (picture,) = finished.pictures
    drawn = picture.read_text("utf-8")
    assert "nobody leaves" in drawn
    assert "50% leave" in drawn
    out = finished.page.parent
    assert not list(out.rglob("report.html"))
    assert len(list((out / "studies").iterdir())) == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rows = [20]", "", r"figure\.rows: is empty; a figure of kind 'grid' needs"),
        ("noises = [0.0, 3.0]", "noises = [-1.0]", r"figure\.noises: -1.0 is not allowed"),
        ("[methods.fl-ipw]\n", "", "name one without coded data"),
        ('kind = "departures"\nat-s = 1', 'kind = "outages"', "a grid varies the share"),
    ],
)
def test_mistakes_get_a_sentence(old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_experiment(GRID.replace(old, new, 1), name="s")


def test_guarantees_are_budgets_in_another_currency(tmp_path: Path) -> None:
    text = GRID.replace('kind = "grid"', 'kind = "budget"\nepsilons = [4.0, 8.0]')
    text = text.replace("shares = [0.0, 0.5]\nnoises = [0.0, 3.0]\nrows = [20]\n", "")
    text = text.replace("seeds = 2", "seeds = 1\nprivacy = { delta = 1e-5, row-norm = 1.45 }")
    text = text.replace("[availability]\n" + 'kind = "departures"\nat-s = 1\n', "")
    text = text.replace("[methods.fl-ipw]", "[methods.fl-ipw]\nmomentum = 0.9")
    done = run_experiment(read_experiment(text, name="exact"), tmp_path)
    assert list(done.outcome.studies) == [None, 8.0, 4.0]
    for epsilon in (8.0, 4.0):
        for numbers in done.outcome.numbers[epsilon]:
            assert numbers.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert [path.name for path in done.pictures] == ["exact.svg"]
    page = done.page.read_text("utf-8")
    assert "| epsilon 4 | resilient |" in page
    keys = {judgement.claim.key for judgement in done.outcome.judgements["apart"]}
    assert "no-code-best" in keys
    with pytest.raises(ConfigError, match="leave one of them out"):
        read_experiment(text.replace("epsilons", "mi-bits = [1.0]\nepsilons"), name="both")
