"""Every erratum shows what it says, and the page is what the commands compute."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scfl.cli import app
from scfl.errata.catalogue import ERRATA, find_erratum, write_page
from scfl.errata.erratum import Figure
from scfl.errors import ParameterError

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
NUMBER = re.compile(r"\*\*(-?[\d,.]+(?:e[+-]\d+)?)\*\*")


@cache
def numbers(name):
    return [figure.value for figure in find_erratum(name).demonstrate()]


def test_the_page_is_what_the_commands_compute():
    """The same words, and every number within 2%: other machines round differently."""
    kept, computed = PAGE.read_text(encoding="utf-8"), write_page()
    assert NUMBER.sub("#", kept) == NUMBER.sub("#", computed)
    pairs = zip(NUMBER.findall(kept), NUMBER.findall(computed), strict=True)
    for there, here in pairs:
        there, here = (float(text.replace(",", "")) for text in (there, here))
        assert here == pytest.approx(there, rel=0.02, abs=1e-9)


@pytest.mark.parametrize(("name", "factor"), [("noise-deviation", 4), ("cross-product", 20)])
def test_a_mean_is_the_corrected_one(name, factor):
    printed, corrected, measured = numbers(name)
    assert measured == pytest.approx(corrected, rel=0.03)
    assert corrected == pytest.approx(factor * printed)


def test_the_product_of_coded_norms_grows_with_the_square_of_c():
    few, some, many = numbers("coded-product")
    assert few > 1
    assert 30 < some / few < 300
    assert many / some == pytest.approx(100, rel=0.25)


def test_the_exact_variance_is_measured_and_the_printed_bound_is_a_hundred_times_that():
    printed, corrected, exact, measured = numbers("lemma-3")
    assert measured == pytest.approx(exact, rel=0.05)
    assert exact <= corrected < 10 * exact
    assert printed > 100 * exact


def test_one_code_leaves_a_gap_that_fresh_codes_do_not():
    fresh, once, limit, expected = numbers("one-code")
    assert once == pytest.approx(limit, rel=0.05)
    assert expected == pytest.approx(limit, rel=0.35)
    assert fresh < once / 4


def test_noise_turns_the_smallest_eigenvalue_and_the_model_grows():
    small, _, large, before, after = numbers("make-up-term")
    assert large < 0 < small
    assert after > 10 * before


def test_the_printed_step_is_short_and_its_proof_ends_elsewhere():
    printed, by_horizon, by_round = numbers("step-horizon")
    assert printed == by_horizon
    assert by_round == pytest.approx(3, abs=0.1)
    short, long, slow, fast = numbers("step-size")
    assert long > 10 * short
    assert slow > 100 * fast


def test_what_leaks():
    bits, error = numbers("entry-privacy")
    assert bits > 0
    assert error < 1e-9
    _, held, seen = numbers("bare-labels")
    assert held == seen


def test_coding_takes_longer_than_training():
    round_s, upload, encoding, stacked_upload, stacked_encoding = numbers("setup-cost")
    assert round_s < 20
    assert encoding > 6_000
    assert encoding / stacked_encoding == pytest.approx(20)
    assert upload / stacked_upload == pytest.approx(20)


def test_the_command_prints_words_or_an_object():
    said = CliRunner().invoke(app, ["errata", "step-horizon"])
    assert said.exit_code == 0
    assert "gamma" in said.output
    (found,) = json.loads(CliRunner().invoke(app, ["errata", "step-horizon", "--json"]).output)
    assert found["name"] == "step-horizon"
    assert found["figures"][0] == {"label": "factor on phi sqrt(rho / R), printed", "value": 2.0}


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'one-code'"):
        find_erratum("onecode")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (4.2, "4.2"), (-28.44, "-28.4"), (3.3e6, "3.30e+06"), (1e-12, "1.00e-12")],
)
def test_three_digits(value, text):
    assert Figure("", value).text == text


def test_every_erratum_is_listed_once():
    assert len(ERRATA) == 11
