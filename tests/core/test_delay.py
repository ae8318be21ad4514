from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scfl.core.delay import ShiftedExponential, WirelessEdge, Work
from scfl.errors import ParameterError
from tests import oracles
from tests.strategies import erasures, laws, ticks, works

DRAWS = 200_000
# Fast and slow links and processors, and one client with nothing to compute.
WORK = Work(
    compute_s=np.array([0.0, 0.3, 2.0, 40.0]),
    upload_s=np.array([0.7, 2.3, 0.05, 1.0]),
    download_s=0.7,
)
LAWS = [
    WirelessEdge(0.0),
    WirelessEdge(0.1),
    WirelessEdge(0.6),
    ShiftedExponential(0.0, 2.0),
    ShiftedExponential(0.1, 0.5),
    ShiftedExponential(0.6, 5.0),
]
every_law = pytest.mark.parametrize("law", LAWS, ids=repr)


def one_client(compute_s: float, upload_s: float, download_s: float) -> Work:
    return Work(np.array([compute_s]), np.array([upload_s]), download_s)


@given(erasures, works(), ticks(0, 5000))
def test_wireless_cdf_is_the_sum_over_attempts(erasure, work, seconds):
    """Times are exact 64ths, so that whether an attempt is in time is never in doubt."""
    got = WirelessEdge(erasure).cdf(work, seconds)
    for client in range(len(got)):
        want = oracles.wireless_cdf(
            seconds,
            erasure=erasure,
            compute_s=work.compute_s[client],
            upload_s=work.upload_s[client],
            download_s=work.download_s,
        )
        assert got[client] == pytest.approx(want, rel=0, abs=1e-13)


@given(erasures, st.floats(0.1, 10), works(), ticks(0, 5000))
def test_shifted_cdf_is_the_sum_over_transmissions(erasure, variation, work, seconds):
    """To 1e-7: a deadline within rounding of a jump may count as at it."""
    got = ShiftedExponential(erasure, variation).cdf(work, seconds)
    for client in range(len(got)):
        want = oracles.shifted_cdf(
            seconds,
            erasure=erasure,
            variation=variation,
            compute_s=work.compute_s[client],
            upload_s=work.upload_s[client],
        )
        assert got[client] == pytest.approx(want, rel=0, abs=1e-7)


@every_law
def test_cdf_is_that_of_the_draws(law):
    """Within 5 standard errors of 200,000 draws: at jumps, between them and in the tail."""
    delays = law.sample(WORK, DRAWS, np.random.default_rng(1))
    early, attempt = law.earliest(WORK), WORK.upload_s
    for seconds in (early * 0.999, early, early + attempt, early + 2.5 * attempt, early * 1.2):
        chance = law.cdf(WORK, seconds)
        error = np.sqrt(chance * (1 - chance) / DRAWS)
        share = (delays <= seconds).mean(axis=0)
        assert (np.abs(share - chance) <= 5 * error + 1e-12).all()


@every_law
def test_mean_is_that_of_the_draws(law):
    """Within 5 standard errors of 200,000 draws."""
    delays = law.sample(WORK, DRAWS, np.random.default_rng(2))
    error = delays.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(delays.mean(axis=0) - law.mean(WORK)) <= 5 * error + 1e-9).all()


@every_law
def test_draws_of_clients_and_rounds_are_independent(law):
    """Correlations of 40,000 rounds within 5 / sqrt(40,000), between clients and with the last."""
    rounds = 40_000
    delays = law.sample(WORK, rounds + 1, np.random.default_rng(3))
    varied = delays[:, delays.std(axis=0) > 1e-9]
    scaled = (varied - varied.mean(axis=0)) / varied.std(axis=0)
    between = scaled[1:].T @ scaled[1:] / rounds
    np.fill_diagonal(between, 0)
    after = scaled[1:].T @ scaled[:-1] / rounds
    assert (np.abs(between) < 5 / np.sqrt(rounds)).all()
    assert (np.abs(after) < 5 / np.sqrt(rounds)).all()


@given(laws, works(), st.lists(st.floats(0, 1e4), min_size=2, max_size=30))
def test_cdf_never_decreases_and_reaches_one(law, work, times):
    chances = law.cdf(work, np.sort(times)[:, None])
    assert chances.shape == (len(times), len(work.upload_s))
    assert (np.diff(chances, axis=0) >= 0).all()
    assert (chances >= 0).all()
    assert law.cdf(work, 1e7) == pytest.approx(1, rel=0, abs=1e-12)
    assert law.cdf(work, np.inf) == pytest.approx(1, rel=0, abs=1e-12)


def test_cdf_is_never_above_one():
    """A weight sqrt(1 - P) must not become NaN because P is 1 and a rounding error."""
    for erasure in np.linspace(0, 0.99, 100):
        for law in (WirelessEdge(erasure), ShiftedExponential(erasure)):
            assert (law.cdf(WORK, 1e6) <= 1).all()


@given(laws, works())
def test_nothing_arrives_before_the_earliest(law, work):
    early = law.earliest(work)
    assert (law.cdf(work, early * (1 - 1e-9)) == 0).all()
    assert (law.cdf(work, early * (1 + 1e-3)) > 0).all()
    assert (law.sample(work, 50, np.random.default_rng(4)) >= early).all()


@given(erasures, works())
def test_the_first_attempt_of_the_papers_law_can_arrive_at_the_earliest(erasure, work):
    law = WirelessEdge(erasure)
    assert law.cdf(work, law.earliest(work)) == pytest.approx(1 - erasure)


def test_without_erasure_the_papers_law_is_certain():
    law = WirelessEdge(0.0)
    delays = law.sample(WORK, 100, np.random.default_rng(5))
    assert (delays == law.earliest(WORK)).all()
    assert (law.mean(WORK) == law.earliest(WORK)).all()
    assert (law.cdf(WORK, law.earliest(WORK)) == 1).all()


def test_without_erasure_the_shifted_law_is_one_exponential():
    law = ShiftedExponential(0.0, 2.0)
    work = one_client(4.0, 1.5, 9.0)
    assert law.cdf(work, 4 + 3 + 2.0) == pytest.approx(1 - np.exp(-2 / 4 * 2.0))


@every_law
def test_a_client_with_nothing_to_compute_only_sends(law):
    """Its delay is a whole number of attempts, and every probability is a number."""
    work = one_client(0.0, 0.25, 1.0)
    delays = law.sample(work, 1000, np.random.default_rng(6))
    steady = 1.0 if isinstance(law, WirelessEdge) else 0.0
    attempts = (delays - steady) / 0.25
    assert (attempts == np.round(attempts)).all()
    least = round((law.earliest(work)[0] - steady) / 0.25)
    chance = law.cdf(work, law.earliest(work))
    assert chance == pytest.approx((1 - law.erasure) ** least)


@pytest.mark.parametrize("slowness", [1e2, 1e5, 1e9])
def test_a_deadline_at_a_jump_is_met_in_the_cdf_when_it_is_met_by_the_draw(slowness):
    """To the last bit, in whatever order c, k tau and t_d are added: p_i is P(here), not nearly.

    ``slowness`` is how many times longer than an attempt the computation takes at most.
    """
    rng = np.random.default_rng(7)
    clients = 20_000
    work = Work(
        compute_s=slowness ** rng.uniform(-1, 1, clients),
        upload_s=rng.uniform(0.5, 2, clients),
        download_s=rng.uniform(0.1, 1),
    )
    law = WirelessEdge(0.5)
    delays = law.sample(work, 1, rng)[0]
    k = np.round((delays - work.compute_s - work.download_s) / work.upload_s)
    assert k.max() > 10
    compute, upload, download = work.compute_s, k * work.upload_s, work.download_s
    just_before = np.nextafter(delays, 0)
    any_order = ((compute + upload) + download, (upload + download) + compute)
    for deadline in (delays, just_before, *any_order):
        attempts = np.where(delays <= deadline, k, k - 1)
        assert law.cdf(work, deadline) == pytest.approx(1 - 0.5**attempts, rel=0, abs=1e-14)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(2, 40))
def test_a_deadline_at_a_jump_of_the_shifted_law_with_nothing_to_compute(tau, variation, v):
    law, work = ShiftedExponential(0.5, variation), one_client(0.0, tau, 0.0)
    for seconds, least in ((v * tau, v), (np.nextafter(v * tau, 0), v - 1)):
        chance = law.cdf(work, seconds)
        assert chance == pytest.approx(1 - (least + 1) / 2**least, rel=0, abs=1e-14)


@every_law
def test_a_million_clients_in_one_call(law):
    rng = np.random.default_rng(8)
    clients = 1_000_000
    work = Work(rng.uniform(0, 2, clients), rng.uniform(0.1, 3, clients), 0.7)
    delays = law.sample(work, 1, rng)
    chances = law.cdf(work, 5.0)
    assert delays.shape == (1, clients)
    assert chances.shape == (clients,)
    # The number here at 5 s is a sum of independent coins: 5 standard deviations.
    spread = np.sqrt((chances * np.abs(1 - chances)).sum())
    assert abs((delays <= 5.0).sum() - chances.sum()) <= 5 * spread + 1e-6


@given(erasures, st.floats(0.1, 10))
def test_attempt_probabilities_are_a_distribution(erasure, variation):
    listed = ShiftedExponential(erasure, variation).attempt_probabilities()
    assert [v for v, _ in listed] == list(range(2, 2 + len(listed)))
    assert sum(chance for _, chance in listed) == pytest.approx(1, abs=1e-12)
    mean = sum(v * chance for v, chance in listed)
    assert mean == pytest.approx(2 / (1 - erasure), rel=1e-9)


@given(erasures)
def test_transmissions_per_packet_is_the_mean_number_of_attempts(erasure):
    attempts = sum(k * erasure ** (k - 1) * (1 - erasure) for k in range(1, 2000))
    for law in (WirelessEdge(erasure), ShiftedExponential(erasure)):
        assert law.transmissions_per_packet == pytest.approx(attempts)


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda: WirelessEdge(1.0), ["erasure"]),
        (lambda: WirelessEdge(-0.1), ["erasure"]),
        (lambda: ShiftedExponential(float("nan"), 0.0), ["erasure", "variation"]),
    ],
    ids=["certain-loss", "negative", "both"],
)
def test_bad_parameters_are_refused_in_one_sentence_each(make, fields):
    with pytest.raises(ParameterError) as error:
        make()
    assert [problem.where for problem in error.value.problems] == fields
    expected = "is not allowed; give a finite number at least 0 and below 1"
    assert error.value.problems[0].sentence.endswith(expected)
