"""Every registered method, in several settings, goes through the public conformance suite."""

from __future__ import annotations

import pytest

import scfl
from scfl.methods.protocol import Method
from scfl.testing import check_method

SETTINGS: dict[str, tuple[Method, dict[str, bool]]] = {
    "fedavg": (
        scfl.FedAvg(learning_rate=0.5, batches=scfl.Batches(3)),
        {"unbiased": True},
    ),
    "fedavg, full batches": (
        scfl.FedAvg(learning_rate=0.5, batches=scfl.Batches(1)),
        {"unbiased": True, "exact": True},
    ),
    "fedavg, bernoulli": (
        scfl.FedAvg(learning_rate=0.3, batches=scfl.Batches(2, rule="bernoulli")),
        {"unbiased": True},
    ),
    "fl-pma": (scfl.FLPMA(learning_rate=0.5, drop_fraction=0.4), {}),
    "scfl": (
        scfl.SCFL(learning_rate=0.3, coded_rows=12, batches=scfl.Batches(3)),
        {"unbiased": True},
    ),
    "scfl, windows": (
        scfl.SCFL(learning_rate=0.3, coded_rows=12, batches=scfl.Batches(3, rows=2)),
        {"unbiased": True},
    ),
    "scfl, bernoulli": (
        scfl.SCFL(
            learning_rate=0.3,
            coded_rows=12,
            server_rows=5,
            batches=scfl.Batches(3, rule="bernoulli"),
        ),
        {"unbiased": True},
    ),
    "scfl, noise": (
        scfl.SCFL(learning_rate=0.2, coded_rows=12, noise=scfl.Noise(1.0, labels=True)),
        {"unbiased": True},
    ),
    "scfl, stacked, noise": (
        scfl.SCFL(learning_rate=0.2, coded_rows=20, noise=1.0, layout="stacked"),
        {"unbiased": True},
    ),
    "scfl, step decay": (
        scfl.SCFL(learning_rate=scfl.StepDecay(0.3, 0.8, (50, 100)), coded_rows=12),
        {"unbiased": True},
    ),
    "scfl, allocated loads": (
        scfl.SCFL(learning_rate=0.3, coded_rows=12, batches=scfl.Batches(2, redundancy=0.2)),
        {"unbiased": True},
    ),
    "scfl, no code": (
        scfl.SCFL(learning_rate=0.3, redundancy=0.0, batches=scfl.Batches(2)),
        {"unbiased": True},
    ),
    "cfl-fb": (scfl.CFLFB(learning_rate=0.3), {"unbiased": True}),
    "cfl-fb, stacked": (
        scfl.CFLFB(learning_rate=0.3, redundancy=0.4, layout="stacked"),
        {"unbiased": True},
    ),
    "codedfedl": (
        scfl.CodedFedL(learning_rate=0.3, batches=scfl.Batches(2), redundancy=0.2),
        {"unbiased": True},
    ),
    "codedfedl, stacked": (
        scfl.CodedFedL(
            learning_rate=0.3, batches=scfl.Batches(2), redundancy=0.5, layout="stacked"
        ),
        {"unbiased": True},
    ),
    "dp-cfl": (scfl.DPCFL(learning_rate=0.2, coded_rows=12), {"unbiased": True}),
    "dp-cfl, bernoulli": (
        scfl.DPCFL(
            learning_rate=0.2, coded_rows=12, server_rows=6, batches=scfl.Batches(rule="bernoulli")
        ),
        {"unbiased": True},
    ),
    "fl-ipw": (
        scfl.FLIPW(learning_rate=0.3, batches=scfl.Batches(2, redundancy=0.2)),
        {"unbiased": True},
    ),
    "fl-ipw, momentum": (
        scfl.FLIPW(learning_rate=0.1, momentum=0.8, batches=scfl.Batches(2)),
        {"unbiased": True},
    ),
    "scfl, safe make-up": (
        scfl.SCFL(learning_rate=0.2, coded_rows=12, noise=1.0, make_up="safe"),
        {},
    ),
    "curvature": (
        scfl.Curvature(coded_rows=60, batches=scfl.Batches(3)),
        {"unbiased": True},
    ),
    "curvature, summed, noise": (
        scfl.Curvature(coded_rows=60, noise=0.3, layout="summed", batches=scfl.Batches(2)),
        {"unbiased": True},
    ),
    "stand-in": (
        scfl.StandIn(learning_rate=0.3, coded_rows=40, batches=scfl.Batches(3)),
        {"unbiased": True},
    ),
    "stand-in, noise": (
        scfl.StandIn(learning_rate=0.2, coded_rows=40, noise=scfl.Noise(0.5, labels=True)),
        {"unbiased": True},
    ),
    "doubly-robust": (
        scfl.DoublyRobust(learning_rate=0.3, coded_rows=40, batches=scfl.Batches(3)),
        {"unbiased": True},
    ),
    "doubly-robust, bernoulli, noise": (
        scfl.DoublyRobust(
            learning_rate=0.2,
            coded_rows=40,
            server_rows=20,
            noise=0.5,
            batches=scfl.Batches(2, rule="bernoulli"),
        ),
        {"unbiased": True},
    ),
    "adaptive-scfl": (
        scfl.AdaptiveSCFL(learning_rate=0.3, coded_rows=40, batches=scfl.Batches(3)),
        {"unbiased": True},
    ),
    "adaptive-scfl, stacked, noise": (
        scfl.AdaptiveSCFL(learning_rate=0.2, coded_rows=40, noise=1.0, layout="stacked"),
        {},
    ),
    "resilient": (scfl.Resilient(coded_rows=400, batches=scfl.Batches(1)), {"exact": True}),
    "resilient, noise": (
        scfl.Resilient(coded_rows=60, noise=0.3, rows_by="size", batches=scfl.Batches(2)),
        {},
    ),
    "one-shot": (scfl.OneShot(), {"unbiased": True, "exact": True}),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_conforms(setting: str) -> None:
    method, promises = SETTINGS[setting]
    check_method(method, **promises)


def test_every_registered_method_is_checked() -> None:
    assert {method.name for method, _ in SETTINGS.values()} == set(scfl.known_methods())


def test_leaving_the_make_up_term_out_is_caught() -> None:
    method = scfl.SCFL(learning_rate=0.2, coded_rows=12, noise=1.0, make_up=False)
    with pytest.raises(AssertionError, match="standard errors off"):
        check_method(method, unbiased=True)


def test_dropping_clients_is_caught() -> None:
    with pytest.raises(AssertionError, match="standard errors off"):
        check_method(scfl.FLPMA(learning_rate=0.5, drop_fraction=0.4), unbiased=True)


def test_an_error_floor_is_caught() -> None:
    method = scfl.SCFL(learning_rate=0.3, coded_rows=12, batches=scfl.Batches(1))
    with pytest.raises(AssertionError, match="away from the least-squares solution"):
        check_method(method, exact=True)
