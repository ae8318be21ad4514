"""The same runs in two currencies: the printed budget, and the exact epsilon of a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from scfl.experiments.catalogue import read_experiment
from scfl.experiments.run import Finished, run_experiment

TABLES = """
seeds = 1
figure = { kind = "budget", title = "Two numbers", mi-bits = [0.5, 0.05] }
privacy = { delta = 1e-5, row-norm = 4.0 }
problem = { dataset = "digits" }
partition = { kind = "label-sorted", clients = 5 }
clock = { rounds = 2 }
search = { learning-rates = [0.01] }
defaults = { noise = { labels = true }, batches = { subsets = 2 } }
[methods.scfl]
[methods.codedfedl]
[methods.fl-ipw]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out = tmp_path_factory.mktemp("currencies")
    return run_experiment(read_experiment(TABLES, name="currencies"), out)


def test_both_pictures_are_drawn(finished: Finished) -> None:
    printed, exact = (path.read_text("utf-8") for path in finished.pictures)
    assert [path.name for path in finished.pictures] == ["currencies.svg", "currencies-exact.svg"]
    assert "printed in the paper" in printed
    assert "exact epsilon of one row of coded data, delta = 1e-05" in exact


def test_one_printed_budget_is_another_epsilon_for_every_method(finished: Finished) -> None:
    numbers = finished.outcome.numbers
    assert all(each.epsilon is None for each in numbers[None])
    for bits in (0.5, 0.05):
        scfl, codedfedl = numbers[bits]
        assert scfl.mi_bits == pytest.approx(bits)
        assert codedfedl.mi_bits == pytest.approx(bits)
        assert scfl.epsilon is not None
        assert codedfedl.epsilon is not None
        assert scfl.epsilon != pytest.approx(codedfedl.epsilon, rel=0.05)
    loose, tight = numbers[0.5][0].epsilon, numbers[0.05][0].epsilon
    assert loose is not None
    assert tight is not None
    assert loose > tight


def test_the_page_has_both_numbers(finished: Finished) -> None:
    page = finished.page.read_text(encoding="utf-8")
    assert "| printed bits | sigma | exact epsilon |" in page
    assert Path(finished.pictures[1]).name in page
