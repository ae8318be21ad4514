"""Advice: which rule speaks for which fleet, budget and expected loss, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scfl.cli import app
from scfl.experiments.advice import Advice, advise
from scfl.study.config import check_tables

TABLES: dict[str, Any] = {
    "seeds": 1,
    "problem": {"dataset": "regression", "rows": 20_000, "columns": 300, "outputs": 10},
    "clock": {"rounds": 100},
    "methods": {"fl-ipw": {}, "curvature": {}},
    "defaults": {"batches": {"subsets": 30}},
}


def advice(losing: float | None = None, **changes: Any) -> Advice:
    return advise(check_tables({**TABLES, **changes}, name="x"), losing=losing)


@pytest.mark.parametrize(
    ("changes", "losing", "method"),
    [
        # Sums of products of few columns are sent in no time, unless something is to be hidden.
        ({"problem": {**TABLES["problem"], "columns": 5}}, None, "one-shot"),
        ({"problem": {**TABLES["problem"], "columns": 5}}, 0.2, "one-shot"),
        ({"defaults": {"noise": 0.1}}, 0.0, "curvature"),
        ({"defaults": {"noise": 0.1}}, 0.3, "resilient"),
        ({"defaults": {"noise": 0.1}, "availability": {"kind": "outages"}}, None, "resilient"),
        ({"defaults": {"noise": 500.0}}, None, "fl-ipw with momentum"),
        ({"defaults": {"noise": 500.0}}, 0.3, "resilient"),
        ({"defaults": {"noise": 0.1}, "clock": {"horizon-s": 1}}, 0.3, "fl-ipw with momentum"),
    ],
)
def test_the_first_rule_that_applies_speaks(
    changes: dict[str, Any], losing: float | None, method: str
) -> None:
    # A fleet that codes quickly: with slow ones no code is worth its making.
    fleet = {"macs-per-s": [1e9, 2e9], "random-state": 0}
    given = advice(losing, fleet=fleet, **changes)
    assert given.method == method, given.sentence
    assert given.sentence == f"Try {method}: {given.reason} ({given.evidence})."


def test_where_rounds_are_short_and_codes_take_long_codes_are_left_out() -> None:
    few_rows = {"noise": 0.1, "batches": {"subsets": 300}}
    given = advice(0.0, defaults=few_rows, fleet={"macs-per-s": [1e4, 1e5]})
    assert given.method == "fl-ipw with momentum"
    assert "making and sending codes alone" in given.reason


def test_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[clock]\nrounds = 5\n[methods.scfl]\nnoise = 0.1\n")
    run = CliRunner().invoke(app, ["plan", str(path), "--advise", "--losing", "0.25"])
    assert run.exit_code == 0, run.output
    assert run.output.startswith("Try resilient: 25% of the clients")
    as_json = CliRunner().invoke(app, ["plan", str(path), "--advise", "--json"])
    assert '"method"' in as_json.output
    wrong = CliRunner().invoke(app, ["plan", str(path), "--losing", "0.25"])
    assert wrong.exit_code != 0
