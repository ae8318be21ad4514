"""`scfl privacy`: noise, epsilon, delta and rows, for people and for programs."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from scfl.cli import main

BUDGET = ["--epsilon", "1", "--delta", "1e-5"]
NORM = ["--row-norm", "1"]


def ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["scfl", "privacy", *words])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr()
    return int(left.value.code or 0), said.out, said.err


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> dict[str, Any]:
        code, out, err = ask(monkeypatch, capsys, *words, "--json")
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    return run


def test_the_noise_for_a_budget(answer: Any) -> None:
    found = answer("noise", "--rows", "300", *BUDGET, *NORM)
    assert found["noise"] == pytest.approx(7.07, abs=0.01)
    assert (found["epsilon"], found["delta"]) == (1, 1e-5)
    assert found["printed_bits"] == pytest.approx(1.405, abs=0.001)
    assert "not a row guarantee" in found["printed_covers"]


def test_the_epsilon_of_a_noise(answer: Any) -> None:
    found = answer("epsilon", "--rows", "300", "--noise", "7.1", "--delta", "1e-5", *NORM)
    assert found["epsilon"] == pytest.approx(0.9893, abs=1e-4)


def test_the_delta_and_the_rows_of_a_noise(answer: Any) -> None:
    noise = ["--noise", "7.1", *NORM]
    delta = answer("delta", "--rows", "300", "--epsilon", "1", *noise)["delta"]
    assert 8e-6 < delta < 1e-5
    rows = answer("rows", *BUDGET, *noise)["rows"]
    assert 300 < rows < 310


def test_attackers_are_told_from_weak_to_strong(answer: Any) -> None:
    found = answer("noise", "--rows", "300", *BUDGET, *NORM)
    can = [attacker["can"] for attacker in found["attackers"]]
    assert "1.4 bits" in can[0]
    assert "54.8% of the time" in can[3]
    assert "coded data only" in can[4]


def test_people_get_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ask(monkeypatch, capsys, "noise", "--rows", "300", *BUDGET, *NORM)
    assert code == 0
    for words in ("7.06519", "(1, 1e-05)", "1.405 bits", "not a row"):
        assert words in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["noise", "--rows", "300", "--epsilon", "1", "--delta", "1", *NORM], "delta: 1.0 is not"),
        (["noise", "--rows", "300", "--epsilon", "0", "--delta", "0.1", *NORM], "epsilon: 0.0 is"),
        (["noise", "--rows", "300", *BUDGET], "row_norm: is missing; (epsilon, delta) needs"),
        (["noise", "--rows", "0", *BUDGET, *NORM], "rows: 0 is not allowed"),
        (
            ["epsilon", "--rows", "3", "--noise", "0", "--delta", "0.1", *NORM],
            "noise: 0 keeps no budget, however large",
        ),
        (["rows", "--noise", "0.1", *BUDGET, *NORM], "noise: 0.1 does not cover a single coded"),
        (
            ["noise", "--rows", "999", "--epsilon", "1e-13", "--delta", "1e-12", *NORM],
            "epsilon: 1e-13 with delta 1e-12 and 999 coded rows needs noise above",
        ),
    ],
)
def test_nonsense_ends_in_one_sentence(
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = ask(monkeypatch, capsys, *words)
    assert code == 2
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""
