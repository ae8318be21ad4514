"""Attacks: what they reach stays below what is promised, and a broken promise is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from scfl.privacy.audit import (
    EXPECTED_SHARE,
    audit_membership,
    bound_epsilon,
    clopper_pearson,
    guess_classes,
    recover_entry,
)
from scfl.privacy.sketch import find_noise
from scfl.report.findings import report_halved, report_membership

ROWS, DELTA, TRIALS = 20, 1e-5, 60_000


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_the_best_membership_test_stays_below_the_promise_and_near_it(epsilon: float) -> None:
    sigma = find_noise(epsilon, DELTA, rows=ROWS, row_norm=2.0)
    audit = audit_membership(rows=ROWS, sigma=sigma, delta=DELTA, row_norm=2.0, trials=TRIALS)
    assert audit.promised_epsilon == pytest.approx(epsilon)
    assert audit.holds
    assert audit.share >= EXPECTED_SHARE
    assert report_membership(audit).expected


def test_half_the_noise_is_noticed() -> None:
    sigma = find_noise(2.0, DELTA, rows=ROWS, row_norm=1.0)
    audit = audit_membership(
        rows=ROWS, sigma=sigma, delta=DELTA, trials=TRIALS, actual_sigma=sigma / 2
    )
    assert not audit.holds
    assert audit.measured_epsilon > 1.5 * audit.promised_epsilon
    assert "THE PROMISE IS BROKEN" in report_membership(audit).outcome
    assert report_halved(audit).expected


def test_labels_left_without_noise_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit runs the clients' own code: forget the labels' noise there, and it fails."""
    from scfl.core import coding  # noqa: PLC0415

    honest = coding._add_noise

    def forgetful(features, targets, amount, generator):  # type: ignore[no-untyped-def]
        honest(features, targets, coding.Noise(amount.sigma, labels=False), generator)

    monkeypatch.setattr(coding, "_add_noise", forgetful)
    sigma = find_noise(2.0, DELTA, rows=ROWS, row_norm=1.0)
    assert not audit_membership(rows=ROWS, sigma=sigma, delta=DELTA, trials=20_000).holds


def test_the_bound_never_exceeds_a_known_epsilon() -> None:
    """Two normal distributions with shift 1: every event's ratio is known, and bounds it."""
    rng = np.random.default_rng(4)
    there, away = rng.normal(1, 1, (1, 40_000)), rng.normal(0, 1, (1, 40_000))
    grid = np.linspace(-4, 5, 2000)
    delta = 1e-4
    best = max(
        np.log(np.maximum(stats.norm.sf(grid - 1) - delta, 1e-300) / stats.norm.sf(grid)).max(),
        np.log(np.maximum(stats.norm.cdf(grid) - delta, 1e-300) / stats.norm.cdf(grid - 1)).max(),
    )
    assert 0.4 * best < bound_epsilon(there, away, delta) < best
    assert bound_epsilon(away, rng.normal(0, 1, (1, 40_000)), delta) < 0.05


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (417, 100_000)])
def test_clopper_pearson_is_the_exact_interval(hits: int, trials: int) -> None:
    low, high = clopper_pearson(hits, trials, confidence=0.95)
    exact = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_an_entry_is_recovered_from_the_other_columns() -> None:
    """The counterexample to Theorem 2: it allows a few bits, and the attacker has them all."""
    for seed in range(5):
        audit = recover_entry(random_state=seed)
        assert audit.error < 1e-12
        assert audit.printed_bits < 20
        assert recover_entry(sigma=1.0, random_state=seed).error > 1e-3


def test_labels_without_noise_tell_every_class() -> None:
    bare = guess_classes()
    assert bare.clients_right == bare.pairs_right == 1
    noisy = guess_classes(label_noise=10.0)
    assert noisy.clients_right < 0.3
    # Noise for one row does not hide what all rows of a client share.
    assert guess_classes(label_noise=1.0).clients_right > 0.7
