from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.parameter import Requirements, suggest
from scfl.errors import ParameterError


def ask_for_much() -> None:
    with Requirements() as require:
        require.count("rows", 0, at_least=1)
        require.number("erasure", 0.1, at_least=0, below=1)
        require.number("sigma", -1, at_least=0)
        require.choice("layout", "sumed", ("summed", "stacked"))
        require.that(False, "deadline_s", "no client can meet it")


def fail_for_another_reason() -> None:
    with Requirements() as require:
        require.that(False, "rows", "are wrong")
        raise ZeroDivisionError


def test_all_problems_are_reported_at_once():
    with pytest.raises(ParameterError) as error:
        ask_for_much()
    assert str(error.value).splitlines() == [
        "rows: 0 is not allowed; give a whole number at least 1",
        "sigma: -1 is not allowed; give a finite number at least 0",
        "layout: 'sumed' is not known; did you mean 'summed'?",
        "deadline_s: no client can meet it",
    ]


def test_nothing_is_raised_when_nothing_is_wrong():
    with Requirements() as require:
        require.count("rows", 3, at_least=3, at_most=3)
        require.number("rate", 1e-300, above=0)
        require.choice("layout", "summed", ("summed", "stacked"))
        require.that(True, "deadline_s", "no client can meet it")
    assert require.problems == []


def test_another_error_inside_the_block_is_not_replaced():
    with pytest.raises(ZeroDivisionError):
        fail_for_another_reason()


@given(st.integers(-5, 15), st.integers(0, 10), st.none() | st.integers(0, 10))
def test_count_accepts_exactly_the_closed_range(value, low, high):
    require = Requirements()
    require.count("n", value, at_least=low, at_most=high)
    assert bool(require.problems) != (low <= value and (high is None or value <= high))


@pytest.mark.parametrize("value", [1.0, "1", None, True, np.float64(2), np.array(1), [1]])
def test_count_refuses_what_is_not_a_whole_number(value):
    require = Requirements()
    require.count("n", value)
    assert len(require.problems) == 1


def test_count_accepts_numpy_integers_and_says_both_ends():
    require = Requirements()
    require.count("n", np.int32(3), at_least=1)
    assert require.problems == []
    require.count("n", 9, at_least=1, at_most=8)
    assert str(require.problems[0]) == "n: 9 is not allowed; give a whole number from 1 to 8"


@given(
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
    st.sampled_from(["above", "at_least", "below", "at_most"]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_number_accepts_exactly_what_the_bound_says(value, word, bound):
    holds = {
        "above": value > bound,
        "at_least": value >= bound,
        "below": value < bound,
        "at_most": value <= bound,
    }[word]
    require = Requirements()
    require.number("x", value, **{word: bound})
    assert bool(require.problems) != holds


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "2", None, True, 1j])
def test_number_refuses_what_is_not_a_finite_number(value):
    require = Requirements()
    require.number("x", value)
    assert len(require.problems) == 1


def test_number_refuses_a_whole_number_that_no_double_holds():
    require = Requirements()
    require.number("x", 10**400)
    assert len(require.problems) == 1


def test_number_accepts_every_kind_of_number_and_says_all_bounds():
    require = Requirements()
    for value in (1, 1.5, np.float32(2), np.int64(3)):
        require.number("x", value, above=0)
    assert require.problems == []
    require.number("x", 2, above=0, at_most=1)
    assert require.problems[0].sentence.endswith("give a finite number above 0 and at most 1")
    require.number("y", "a")
    assert str(require.problems[1]) == "y: 'a' is not allowed; give a finite number"


def test_a_numpy_number_is_shown_as_a_number():
    require = Requirements()
    require.number("x", np.float64(2.5), below=1)
    assert str(require.problems[0]) == "x: 2.5 is not allowed; give a finite number below 1"


def test_choice_refuses_what_is_not_a_word():
    require = Requirements()
    require.choice("layout", 3, ("summed", "stacked"))
    assert str(require.problems[0]) == "layout: 3 is not known; choose from stacked, summed"


def test_suggest_names_the_nearest_word_or_all():
    known = {"scfl", "fedavg", "fl-pma"}
    assert suggest("fedavgg", known) == "did you mean 'fedavg'?"
    assert suggest("zzz", known) == "choose from fedavg, fl-pma, scfl"
