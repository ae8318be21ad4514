"""A study with a privacy budget: what is refused, what is calibrated, what is recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scfl.errors import ConfigError
from scfl.study.config import check_tables
from scfl.study.run import check_study, run_study


def tables(**changed: Any) -> dict[str, Any]:
    study: dict[str, Any] = {
        "seeds": 1,
        "problem": {"dataset": "regression", "rows": 200, "columns": 5},
        "partition": {"kind": "iid", "clients": 4},
        "clock": {"rounds": 3},
        "privacy": {"mi-bits": 0.5},
        "defaults": {"batches": {"subsets": 2}},
        "methods": {"scfl": {}, "codedfedl": {}, "fedavg": {}},
    }
    return {**study, **changed}


def run(study: dict[str, Any], out: Path) -> dict[str, dict[str, Any]]:
    summaries = run_study(check_study(check_tables(study, name="test")), out)
    return {summary["label"]: summary for summary in summaries}


def test_every_coding_method_meets_the_same_printed_budget(tmp_path: Path) -> None:
    runs = run(tables(), tmp_path)
    for label in ("scfl", "codedfedl"):
        privacy = runs[label]["privacy"]
        assert privacy["mi_bits"] == pytest.approx(0.5)
        assert privacy["mi_bits"] <= 0.5
        assert privacy["noise_sigma"] == runs[label]["parameters"]["noise"]["sigma"] > 0
        assert privacy["mi_bits_scale"] > 0
        assert "not a row guarantee" in privacy["mi_bits_covers"]
        released, printed = privacy["statements"]
        assert "not covered by any guarantee" in released
        assert printed.startswith("Printed budget (Theorem 2): 0.5 bits, features divided by")
        clients = json.loads((tmp_path / runs[label]["folder"] / "result.json").read_text())
        bits = [client["privacy"]["mi_bits"] for client in clients["clients"]]
        assert max(bits) == privacy["mi_bits"]
    assert runs["fedavg"]["privacy"]["noise_sigma"] is None
    assert runs["scfl"]["privacy"]["noise_sigma"] != runs["codedfedl"]["privacy"]["noise_sigma"]


def test_another_budget_is_another_run(tmp_path: Path) -> None:
    loose, tight = (
        run(tables(privacy={"mi-bits": bits}), tmp_path / str(bits))["scfl"] for bits in (2.0, 0.2)
    )
    assert loose["key"] != tight["key"]
    assert loose["privacy"]["noise_sigma"] < tight["privacy"]["noise_sigma"]


def test_without_a_budget_the_printed_number_is_still_told(tmp_path: Path) -> None:
    privacy = run(tables(privacy={}), tmp_path)["scfl"]["privacy"]
    assert privacy["budget"] is None
    assert privacy["noise_sigma"] == 0
    assert privacy["mi_bits"] > 0.5


GUARANTEE = {"epsilon": 2.0, "delta": 1e-5, "row-norm": 2.0}


def test_a_guarantee_for_rows_is_kept_by_every_coding_method(tmp_path: Path) -> None:
    stacked = {"method": "scfl", "layout": "stacked", "coded-rows": 20}
    methods = {"scfl": {}, "stacked": stacked, "codedfedl": {}, "dp-cfl": {}, "one-shot": {}}
    runs = run(tables(privacy=GUARANTEE, methods=methods), tmp_path)
    for label in ("scfl", "stacked", "codedfedl", "dp-cfl"):
        privacy, parameters = runs[label]["privacy"], runs[label]["parameters"]
        assert privacy["coded_epsilon"] == pytest.approx(2.0)
        assert privacy["coded_epsilon"] <= 2.0
        assert parameters["noise"] == {"sigma": privacy["noise_sigma"], "labels": True}
        assert privacy["rows_scaled_down"] > 0
    assert runs["stacked"]["privacy"]["noise_sigma"] < runs["scfl"]["privacy"]["noise_sigma"]
    # No gradient leaves a client of DP-CFL; SCFL's do, and nothing covers them.
    assert runs["dp-cfl"]["privacy"]["epsilon"] == runs["dp-cfl"]["privacy"]["coded_epsilon"]
    assert runs["scfl"]["privacy"]["epsilon"] is None
    assert 0 < runs["scfl"]["privacy"]["row_information_nats"] < 1
    sentence, scaled = runs["scfl"]["privacy"]["statements"]
    assert re.fullmatch(r"\d+ of 160 rows were above norm 2 and scaled down\.", scaled)
    assert "the gradients are not covered by any guarantee" in sentence
    assert "not covered" in runs["one-shot"]["privacy"]["statements"][0]


def test_noisy_gradients_are_covered_together_with_the_code(tmp_path: Path) -> None:
    protected = {**GUARANTEE, "gradient-norm": 2.0, "gradient-noise": 20.0}
    coins = {"batches": {"subsets": 2, "rule": "bernoulli"}}
    for number, defaults in enumerate(({"batches": {"subsets": 2}}, coins)):
        study = tables(privacy=protected, defaults=defaults, methods={"scfl": {}})
        privacy = run(study, tmp_path / str(number))["scfl"]["privacy"]
        assert privacy["coded_epsilon"] < privacy["epsilon"] < 2 * privacy["coded_epsilon"]
        sentence = privacy["statements"][0]
        assert "noise sigma 40, each row's own cut to norm 2" in sentence
        assert "in all of it" in sentence
        assert ("coins that stay with the client" in sentence) == (number == 1)


def test_a_norm_and_a_delta_tell_what_a_printed_budget_is_worth(tmp_path: Path) -> None:
    both = {"mi-bits": 0.5, "delta": 1e-5, "row-norm": 3.0}
    noise = {"noise": {"labels": True}, "batches": {"subsets": 2}}
    privacy = run(tables(privacy=both, defaults=noise), tmp_path)["scfl"]["privacy"]
    assert privacy["mi_bits"] == pytest.approx(0.5)
    assert privacy["coded_epsilon"] > 0


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"privacy": {"epsilon": 1, "delta": 1e-5}}, "row-norm: is missing; .* never guessed"),
        ({"privacy": {"epsilon": 1, "row-norm": 1}}, "privacy.delta: is missing"),
        ({"privacy": {**GUARANTEE, "delta": 1}}, "privacy.delta: 1 is not allowed"),
        ({"privacy": {**GUARANTEE, "epsilon": -1}}, "privacy.epsilon: -1 is not allowed"),
        ({"privacy": {**GUARANTEE, "mi-bits": 1}}, "privacy.mi-bits: asks for one noise and"),
        (
            {"privacy": {"epsilon": 1e-14, "delta": 1e-14, "row-norm": 1}},
            "needs noise above .* give at least",
        ),
        (
            {"privacy": GUARANTEE, "methods": {"scfl": {"noise": {"labels": False}}}},
            "methods.scfl.noise: .* is given",
        ),
        ({"privacy": {"gradient-noise": 1}}, "privacy.gradient-norm: is missing; gradients are"),
        ({"privacy": {"gradient-norm": 1}}, "privacy.gradient-noise: is missing"),
        ({"privacy": {"gradient-norm": -1}}, "privacy.gradient-norm: -1 is not allowed"),
        ({"privacy": GUARANTEE, "defaults": {"noise": 0}}, "defaults.noise: 0 is given"),
        ({"privacy": {"mi-bits": 0}}, r"privacy.mi-bits: 0 is not allowed; give a finite number"),
        ({"privacy": {"mi-bit": 1}}, "did you mean 'mi-bits'"),
        ({"methods": {"fedavg": {}}}, "privacy: no method here has noise"),
        ({"defaults": {"noise": 0.5}}, r"defaults.noise: 0.5 is given, and \[privacy\] asks"),
        ({"methods": {"scfl": {"noise": {"sigma": 0.0}}}}, "methods.scfl.noise: .* is given"),
    ],
)
def test_what_cannot_be_is_said_before_any_data_is_touched(
    changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_tables(tables(**changed), name="test")
