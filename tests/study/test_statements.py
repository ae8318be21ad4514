"""One sentence per kind of client: what it sent, and what is guaranteed of that."""

from __future__ import annotations

import numpy as np
import pytest

import scfl
from scfl.methods.releases import list_releases
from scfl.privacy.accountant import account_for
from scfl.privacy.budget import Budget
from scfl.privacy.events import Gradients, Products, Release, Sketch
from scfl.study.account import describe_releases
from scfl.study.statements import state_releases

SKETCH = Sketch(rows=300, sigma=7.1, labels_noised=True, layout="stacked")
BARE = Sketch(rows=300, sigma=7.1, labels_noised=False, layout="summed")
GRADIENTS = Gradients(rounds=40, rows_per_round=8)


def state(*clients: tuple[Release, ...], row_norm: float | None = 1.0) -> list[str]:
    accounts = [account_for(events, delta=1e-5, row_norm=row_norm) for events in clients]
    names = [f"client {index}" for index in range(len(clients))]
    return state_releases(names, clients, accounts, row_norm)


CODED = "client 0 sent 300 coded rows"
KEPT = f"{CODED} (kept apart by client) with noise sigma 7.1 on features and labels"
HOLDS = "epsilon 0.9893 at delta 1e-05 holds for any one row of norm at most 1"
ALSO = "and 40 gradients over 8 rows each with no noise"
SUMMED = f"{CODED} (summed with everybody's) with noise sigma 7.1 on the features only"
NOTHING = "not covered by any guarantee"
GAP = "the gradients are not covered by any guarantee"
PRODUCTS = "client 0 sent the exact sums of products of 12 columns, labels among them"


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ((), "client 0 sent nothing."),
        ((SKETCH,), f"{KEPT}: {HOLDS} in all of it."),
        ((SKETCH, GRADIENTS), f"{KEPT} {ALSO}: {HOLDS} in the coded data only; {GAP}."),
        ((BARE, GRADIENTS), f"{SUMMED} {ALSO}: {NOTHING}, as the coded labels carry no noise."),
        ((Products(columns=12),), f"{PRODUCTS}: {NOTHING}."),
    ],
)
def test_sentences_are_exact(events: tuple[Release, ...], sentence: str) -> None:
    assert state(events) == [sentence]


def test_without_a_norm_the_reason_is_told() -> None:
    (sentence,) = state((SKETCH, GRADIENTS), row_norm=None)
    assert "for want of a bound on the rows' norm and a delta; the gradients are" in sentence


def test_clients_alike_share_a_sentence_with_ranges_and_the_weakest_guarantee() -> None:
    more = Sketch(rows=310, sigma=7.1, labels_noised=True, layout="stacked")
    together, silent = state((SKETCH,), (more,), ())
    assert together.startswith("client 0 and client 1 sent 300 to 310 coded rows")
    assert "epsilon 1.006" in together
    assert silent == "client 2 sent nothing."


def test_a_sum_that_is_not_secure_is_counted_as_seen() -> None:
    summed = Sketch(rows=300, sigma=7.1, labels_noised=True, layout="summed")
    assert "(each client's code taken as seen by itself)" in state((summed,))[0]


def test_a_plan_alone_has_its_sentences() -> None:
    """A training on a network has no problem to look at: only what was planned."""
    fleet = scfl.wireless_edge(3, random_state=0)
    plan = scfl.FedAvg().plan(scfl.Shape(np.array([20, 20, 20]), 4, 1), fleet)
    names = ["north", "south", "west"]
    sent = list_releases(plan, 7)
    told, _ = describe_releases(names, sent, Budget(), row_norm=None, printed=None)
    assert told["statements"] == [
        f"All 3 clients sent 7 gradients over 2 rows each with no noise: {NOTHING}."
    ]
