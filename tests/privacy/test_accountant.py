"""Events in, guarantees out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scfl.privacy.accountant import account_for, noise_for
from scfl.privacy.events import Gradients, Products, Sketch
from scfl.privacy.sketch import find_epsilon

SKETCH = Sketch(rows=300, sigma=7.1, labels_noised=True, layout="stacked")
GRADIENTS = Gradients(rounds=40, rows_per_round=8)


def test_a_sketch_alone_is_covered_whole() -> None:
    account = account_for([SKETCH], delta=1e-5, row_norm=1.0)
    assert account.coded == account.whole
    assert account.coded is not None
    assert account.coded.epsilon == find_epsilon(1e-5, rows=300, sigma=7.1, row_norm=1)


def test_gradients_without_noise_leave_the_whole_uncovered() -> None:
    account = account_for([SKETCH, GRADIENTS], delta=1e-5, row_norm=1.0)
    assert account.coded is not None
    assert account.whole is None


@pytest.mark.parametrize(
    "sketch", [replace(SKETCH, sigma=0.0), replace(SKETCH, labels_noised=False)]
)
def test_bare_labels_or_no_noise_are_worth_nothing(sketch: Sketch) -> None:
    assert account_for([sketch], delta=1e-5, row_norm=1.0).coded is None


def test_without_a_norm_there_is_no_guarantee() -> None:
    assert account_for([SKETCH], delta=1e-5, row_norm=None).coded is None


def test_products_are_worth_nothing_and_silence_everything() -> None:
    assert account_for([Products(columns=9)], delta=1e-5, row_norm=1.0).whole is None
    silent = account_for([], delta=1e-5, row_norm=1.0).whole
    assert silent is not None
    assert silent.epsilon == 0


def test_codes_of_different_rows_cost_as_much_as_one() -> None:
    """A row is in one of them: codes of other rows do not depend on it."""
    one, many = (
        account_for([replace(SKETCH, codes=codes)], delta=1e-5, row_norm=1.0) for codes in (1, 7)
    )
    assert one.coded == many.coded


def test_a_row_that_enters_with_less_weight_needs_less_noise() -> None:
    def noise(*events: Sketch) -> float:
        return noise_for(events, epsilon=1, delta=1e-5, row_norm=2.0)

    half = account_for([replace(SKETCH, row_weight=0.5)], delta=1e-5, row_norm=2.0).coded
    assert half == account_for([SKETCH], delta=1e-5, row_norm=1.0).coded
    assert noise(replace(SKETCH, row_weight=0.5)) == pytest.approx(noise(SKETCH) / 2)
    assert noise(SKETCH, replace(SKETCH, row_weight=0.5)) == noise(SKETCH)
    assert noise(replace(SKETCH, rows=400), SKETCH) > noise(SKETCH)


def test_rows_without_weight_are_not_in_the_code() -> None:
    absent = replace(SKETCH, row_weight=0.0)
    assert noise_for([absent], epsilon=1, delta=1e-5, row_norm=1.0) == 0
    account = account_for([absent], delta=1e-5, row_norm=1.0)
    assert account.whole is not None
    assert account.whole.epsilon == 0
