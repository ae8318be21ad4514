"""The search for learning rates: the least mean loss wins, and no rate that ever diverged."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scfl.errors import ConfigError, RunError
from scfl.study.config import check_tables
from scfl.study.jobs import list_search_jobs
from scfl.study.search import choose_rates, list_next_rates, sum_up_tries

TABLES: dict[str, Any] = {
    "problem": {"dataset": "regression", "rows": 20, "columns": 2},
    "partition": {"clients": 2},
    "clock": {"rounds": 2},
    "methods": {"fedavg": {}},
}


def choose(losses: dict[float, list[float | None]]) -> Any:
    """Choices of a study with one method; None is a run that diverged."""
    search = {"learning-rates": list(losses), "seeds": list(range(3))}
    jobs = list_search_jobs(check_tables({**TABLES, "search": search}, name="small"))
    found = [loss for each in losses.values() for loss in each]
    summaries = [{"diverged": loss is None, "loss": loss} for loss in found]
    return choose_rates(sum_up_tries(jobs, summaries))["fedavg"]


def play(best: float, stable: float, **search: Any) -> tuple[list[list[float]], Any]:
    """Search where the loss grows away from ``best`` and rates above ``stable`` diverge."""
    study = check_tables({**TABLES, "search": search}, name="small")
    stages, jobs, summaries = [], [], []
    wanted = list_search_jobs(study)
    while wanted:
        stages.append([job.method.learning_rate for job in wanted])  # type: ignore[attr-defined]
        jobs += wanted
        for rate in stages[-1]:
            loss = abs(math.log(rate / best)) if rate <= stable else None
            summaries.append({"diverged": loss is None, "loss": loss})
        tried = sum_up_tries(jobs, summaries)
        wanted = list_search_jobs(study, list_next_rates(study.search, tried))
    return stages, choose_rates(tried)["fedavg"]


def test_a_list_is_all_that_is_tried_where_nothing_else_is_said() -> None:
    stages, choice = play(100.0, 1000.0, **{"learning-rates": [1.0, 4.0]})
    assert stages == [[1.0, 4.0]]
    assert choice.at_edge


def test_an_end_that_wins_is_gone_beyond_by_the_lists_own_ratio() -> None:
    stages, choice = play(70.0, 1000.0, **{"learning-rates": [4.0, 1.0], "widen": 9})
    assert stages == [[4.0, 1.0], [16.0], [64.0], [256.0]]
    assert choice.chosen == 64.0
    assert not choice.at_edge
    stages, choice = play(0.02, 1000.0, **{"learning-rates": [1.0, 10.0], "widen": 9})
    assert stages == [[1.0, 10.0], [0.1], [0.01], [0.001]]
    assert choice.chosen == 0.01


def test_a_rate_that_diverges_is_as_good_an_end_as_one_that_is_worse() -> None:
    stages, choice = play(70.0, 20.0, **{"learning-rates": [1.0, 4.0], "widen": 9})
    assert stages == [[1.0, 4.0], [16.0], [64.0]]
    assert choice.chosen == 16.0
    assert not choice.at_edge


def test_where_the_whole_list_diverges_the_search_goes_down() -> None:
    stages, choice = play(0.1, 0.3, **{"learning-rates": [4.0, 16.0], "widen": 4})
    assert stages == [[4.0, 16.0], [1.0], [0.25], [0.0625], [0.0156]]
    assert choice.chosen == 0.0625


def test_widening_ends_where_it_is_told_to() -> None:
    stages, choice = play(1e6, 1e9, **{"learning-rates": [2.0], "widen": 2})
    assert stages == [[2.0], [4.0], [8.0]]
    assert choice.at_edge


def test_refining_tries_between_the_best_and_both_its_neighbours() -> None:
    stages, choice = play(3.0, 100.0, **{"learning-rates": [1.0, 4.0, 16.0], "refine": 2})
    assert stages == [[1.0, 4.0, 16.0], [2.0, 8.0], [2.83, 5.66]]
    assert choice.chosen == 2.83
    assert choice.learning_rates == (1.0, 2.0, 2.83, 4.0, 5.66, 8.0, 16.0)


def test_going_on_needs_a_list_to_start_from() -> None:
    with pytest.raises(ConfigError, match=r"search.widen: needs rates to start from"):
        check_tables({**TABLES, "search": {"widen": 2}}, name="small")


def test_the_least_mean_loss_wins() -> None:
    choice = choose({1.0: [0.3, 0.3, 0.3], 2.0: [0.1, 0.1, 0.9], 4.0: [0.2, 0.3, 0.1]})
    assert choice.chosen == 4.0
    assert choice.losses == pytest.approx((0.3, 1.1 / 3, 0.2))
    assert choice.at_edge


def test_a_rate_with_which_any_seed_diverged_is_out() -> None:
    choice = choose({1.0: [0.3, 0.3, 0.3], 4.0: [0.1, 0.1, None]})
    assert choice.chosen == 1.0
    assert choice.losses == (pytest.approx(0.3), None)
    assert choice.at_edge  # a smaller one may be better still


def test_where_every_rate_diverged_smaller_ones_are_asked_for() -> None:
    with pytest.raises(RunError, match="fedavg diverged with every learning rate"):
        choose({1.0: [None, 0.1, 0.1], 4.0: [None, None, None]})
