"""Rules that deal out rows: every row once, in the proportions promised, or a sentence why not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scfl
from scfl.data.partition import Partition, assign_clients
from scfl.errors import DataError, ParameterError

LABELS = np.repeat(np.arange(10), 300)

rules = st.one_of(
    st.builds(scfl.LabelSorted, st.integers(1, 12)),
    st.builds(scfl.Iid, st.integers(1, 12)),
    st.builds(
        scfl.SizeSkewed, st.integers(1, 12), st.sampled_from(["linear", "square", "exponential"])
    ),
    st.builds(scfl.Dirichlet, st.integers(1, 6), st.just(5.0), st.just(1), st.booleans()),
)


@given(rules, st.integers(0, 5))
def test_every_client_gets_rows_and_the_same_seed_the_same_rows(rule: Partition, seed: int) -> None:
    labels = np.arange(120) % 3
    dealt = assign_clients(rule, labels, seed)
    assert len(dealt) == 120
    assert np.unique(dealt).tolist() == list(range(rule.clients))
    np.testing.assert_array_equal(dealt, assign_clients(rule, labels, seed))


@pytest.mark.parametrize(
    ("growth", "weight"),
    [("linear", lambda k: k), ("square", lambda k: k**2), ("exponential", np.exp)],
)
def test_sizes_grow_as_said(growth: str, weight: object) -> None:
    rule = scfl.SizeSkewed(5, growth)  # type: ignore[arg-type]
    sizes = np.bincount(assign_clients(rule, LABELS, 0))
    wanted = np.array([weight(k) for k in range(1, 6)], dtype=float)  # type: ignore[operator]
    # One row is everybody's, and shares are rounded.
    np.testing.assert_allclose(sizes - 1, wanted / wanted.sum() * (3000 - 5), atol=1)
    assert sizes.sum() == 3000


def test_skewed_sizes_are_not_skewed_labels() -> None:
    dealt = assign_clients(scfl.SizeSkewed(3), LABELS, 0)
    shares = np.bincount(LABELS[dealt == 2], minlength=10) / (dealt == 2).sum()
    # 1500 of 3000 rows: a share of 0.1 has a standard deviation below 0.008.
    np.testing.assert_allclose(shares, 0.1, atol=0.04)


@pytest.mark.parametrize("alpha", [0.3, 3.0])
def test_dirichlet_shares_have_the_spread_of_their_law(alpha: float) -> None:
    """A share of Dirichlet(alpha) among n has mean 1/n, variance (n - 1) / (n^2 (n alpha + 1))."""
    n = 4
    shares = np.concatenate(
        [
            np.bincount(
                assign_clients(scfl.Dirichlet(n, alpha, 1), LABELS, seed) + n * LABELS,
                minlength=10 * n,
            )
            / 300
            for seed in range(60)
        ]
    )
    assert shares.mean() == pytest.approx(1 / n)
    # 600 independent vectors; the variance of the shares is then known to about 6%.
    assert shares.var() == pytest.approx((n - 1) / (n**2 * (n * alpha + 1)), rel=0.2)


def test_everybody_has_the_least_size() -> None:
    rule = scfl.Dirichlet(10, 0.3, min_partition_size=60)
    assert np.bincount(assign_clients(rule, LABELS, 1)).min() >= 60


def test_balancing_evens_sizes_out() -> None:
    def spread(balanced: bool) -> float:
        rule = scfl.Dirichlet(5, 0.5, 1, self_balancing=balanced)
        sizes = [np.bincount(assign_clients(rule, LABELS, seed)).std() for seed in range(10)]
        return float(np.mean(sizes))

    assert spread(True) < 0.7 * spread(False)


@pytest.mark.parametrize(
    ("rule", "labels", "sentence"),
    [
        (scfl.Iid(41), np.arange(40), "41 clients for 40 training rows"),
        (scfl.SizeSkewed(41), np.arange(40), "41 clients for 40 training rows"),
        (scfl.Dirichlet(4), np.linspace(0, 1, 60), "these targets are numbers"),
        (scfl.Dirichlet(5, 1.0, 10), np.arange(40) % 2, "need 50 rows, there are 40"),
        (scfl.Dirichlet(20, 0.01, 9), np.arange(200) % 2, "never had more than 0 rows"),
    ],
)
def test_what_cannot_be_dealt_is_said(rule: Partition, labels: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        assign_clients(rule, labels, 0)


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError) as error:
        scfl.Dirichlet(0, 0.0, 0, self_balancing=1)  # type: ignore[arg-type]
    assert len(error.value.problems) == 4
    with pytest.raises(ParameterError, match="did you mean 'linear'"):
        scfl.SizeSkewed(3, "liner")  # type: ignore[arg-type]


def test_the_problem_follows_the_rule() -> None:
    X = np.random.default_rng(0).standard_normal((3000, 2))
    problem = scfl.make_problem(X, LABELS, clients=scfl.Dirichlet(6, 0.2, 20))
    counts = problem.client_classes()
    assert counts is not None
    assert counts.sum() == 3000
    assert problem.client_rows.min() >= 20
    assert np.median((counts > 0).sum(axis=1)) < 10
