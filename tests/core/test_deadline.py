from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.deadline import find_deadline
from scfl.errors import InfeasibleError


class Counted:
    """Returns of one client, and how often they were asked for."""

    def __init__(self, total):
        self.total, self.calls = total, 0

    def __call__(self, seconds, some):
        self.calls += 1
        return np.array([self.total(seconds)])[some]

    def find(self, needed, **options):
        usual = {"floor_s": 0.0, "guess_s": 1.0, "staircase": True, "clients": 1}
        return find_deadline(self, needed=needed, **(usual | options))


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_a_step_is_found_to_the_last_bit_in_hardly_more_steps_than_bisection_takes(step_s, guess_s):
    returns = Counted(lambda seconds: 5.0 if seconds >= step_s else 1.0)
    assert returns.find(3.0, guess_s=guess_s) == step_s
    # Up to 53 halvings inside a factor of two, more where the first guess is far too late.
    assert returns.calls <= 2 + 53 + 2 * abs(math.log2(step_s / guess_s)) + 2


@given(st.floats(0.1, 0.999), st.floats(1e-2, 1e2))
def test_a_smooth_total_takes_few_steps(share, slowness):
    returns = Counted(lambda seconds: -math.expm1(-seconds / slowness))
    got = returns.find(share, staircase=False, guess_s=slowness)
    want = -slowness * math.log1p(-share)
    assert got == pytest.approx(want, rel=1e-12)
    assert returns.total(got) >= share
    assert returns.calls <= 25  # halving a bracket 43 times would do as well


def test_the_earliest_time_is_the_answer_where_it_is_enough():
    assert Counted(lambda seconds: 2.0).find(2.0, floor_s=0.25) == 0.25
    assert Counted(lambda seconds: 1.0).find(2.0, floor_s=0.25, server=lambda seconds: 1) == 0.25


def test_what_no_time_returns_is_refused():
    with pytest.raises(InfeasibleError, match="no deadline reaches it"):
        Counted(lambda seconds: 1.0).find(2.0)


def test_a_settled_client_is_not_computed_again():
    """One who returns all from the start on is settled once both ends of the bracket are known."""
    asked = []

    def returns(seconds, some):
        asked.append(some.tolist())
        return np.array([3.0, float(seconds >= 0.7)])[some]

    got = find_deadline(returns, needed=4, floor_s=0.0, guess_s=1.0, staircase=True, clients=2)
    assert got == 0.7
    assert asked[:3] == [[0, 1], [0, 1], [1]]
