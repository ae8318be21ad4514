"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from scfl.study.wording import (
    count_words,
    format_bytes,
    format_loss,
    format_number,
    format_range,
    format_ratio,
    format_score,
    format_seconds,
    format_share,
    format_weight,
    list_words,
)


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        (format_seconds, 0.0, "0 s"),
        (format_seconds, 0.5, "0.50 s"),
        (format_seconds, 8.42, "8.4 s"),
        (format_seconds, 9.97, "10 s"),
        (format_seconds, 1650.4, "1,650 s"),
        (format_seconds, math.inf, "not reached"),
        (format_seconds, math.nan, "-"),
        (format_seconds, None, "-"),
        (format_bytes, 0, "0 B"),
        (format_bytes, 999, "999 B"),
        (format_bytes, 1000, "1.0 kB"),
        (format_bytes, 999_600, "1.0 MB"),
        (format_bytes, 52_800_000, "53 MB"),
        (format_bytes, 2.5e18, "2,500 PB"),
        (format_bytes, None, "-"),
        (format_score, 0.93849, "0.938"),
        (format_loss, 0.17, "0.170"),
        (format_loss, 123.4, "123"),
        (format_loss, 0.000012345, "1.23e-05"),
        (format_loss, math.inf, "-"),
        (format_ratio, 2.06, "2.1x"),
        (format_ratio, 0.84, "0.84x"),
        (format_ratio, 0.999, "1.0x"),
        (format_ratio, 1234.5, "1,234x"),
        (format_ratio, math.inf, "∞"),
        (format_number, 17.62, "17.6"),
        (format_number, 17.98, "18"),
        (format_share, 0.0, "0%"),
        (format_share, 0.001, "<1%"),
        (format_share, 0.999, ">99%"),
        (format_share, 1.0, "100%"),
        (format_share, math.nan, "-"),
        (format_weight, 0.50051, "0.5005"),
        (format_weight, 12345.6, "12,346"),
    ],
)
def test_numbers_read_well(form, value: float | None, words: str) -> None:
    assert form(value) == words


def test_a_range_says_its_unit_once() -> None:
    assert format_range(98, 140, format_seconds) == "98 to 140 s"
    assert format_range(0.5, math.inf, format_seconds) == "0.50 s to not reached"
    assert format_range(2e3, 2e6, format_bytes) == "2.0 kB to 2.0 MB"
    assert format_range(140.1, 140.2, format_seconds) == "140 s"


def test_words_are_listed_and_counted() -> None:
    assert [list_words(list("abc")[:count]) for count in range(4)] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert (count_words(1, "seed"), count_words(1200, "row")) == ("1 seed", "1,200 rows")
