"""The search for learning rates: the least mean loss wins, and no rate that ever diverged."""

from __future__ import annotations

from typing import Any

import pytest

from scfl.errors import RunError
from scfl.study.config import check_tables
from scfl.study.jobs import list_search_jobs
from scfl.study.search import choose_rates


def choose(losses: dict[float, list[float | None]]) -> Any:
    """Choices of a study with one method; None is a run that diverged."""
    tables: dict[str, Any] = {
        "problem": {"dataset": "regression", "rows": 20, "columns": 2},
        "partition": {"clients": 2},
        "clock": {"rounds": 2},
        "search": {"learning-rates": list(losses), "seeds": list(range(3))},
        "methods": {"fedavg": {}},
    }
    jobs = list_search_jobs(check_tables(tables, name="small"))
    found = [loss for each in losses.values() for loss in each]
    summaries = [{"diverged": loss is None, "loss": loss} for loss in found]
    return choose_rates(jobs, summaries)["fedavg"]


def test_the_least_mean_loss_wins() -> None:
    choice = choose({1.0: [0.3, 0.3, 0.3], 2.0: [0.1, 0.1, 0.9], 4.0: [0.2, 0.3, 0.1]})
    assert choice.chosen == 4.0
    assert choice.losses == pytest.approx((0.3, 1.1 / 3, 0.2))
    assert choice.at_edge


def test_a_rate_with_which_any_seed_diverged_is_out() -> None:
    choice = choose({1.0: [0.3, 0.3, 0.3], 4.0: [0.1, 0.1, None]})
    assert choice.chosen == 1.0
    assert choice.losses == (pytest.approx(0.3), None)
    assert not choice.at_edge


def test_where_every_rate_diverged_smaller_ones_are_asked_for() -> None:
    with pytest.raises(RunError, match="fedavg diverged with every learning rate"):
        choose({1.0: [None, 0.1, 0.1], 4.0: [None, None, None]})
