"""What somebody who sees a client's coded data can do with it, by what else they know."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from scfl.privacy.mutual_information import bound_row_information
from scfl.privacy.sketch import bound_ratio, log_delta

_ALARM = 0.01


@dataclass(frozen=True)
class Attacker:
    """Somebody who knows something besides the coded data, and what that lets them do."""

    knows: str
    can: str


def describe_attackers(
    *, rows: int, sigma: float, row_norm: float, printed_bits: float
) -> list[Attacker]:
    """From the attacker of Theorem 2 to the one against whom nothing here helps."""
    ratio = bound_ratio(sigma, row_norm=row_norm)
    entry = f"learn at most {printed_bits:.3g} bits about that entry (the printed number)"
    exactly = "recover that entry exactly once there are as many coded rows as rows"
    nats = bound_row_information(rows, sigma, row_norm=row_norm)
    bits = f"{nats / math.log(2):.3g} bits"
    return [
        Attacker("the other entries of one entry's column, and nothing else", entry),
        Attacker(
            "the other columns as well",
            exactly
            if math.isinf(ratio)
            else f"learn at most {bits} about that entry (the bound for its row)",
        ),
        Attacker(
            "every other row",
            "find its direction, labels included, as far as the other rows do not hide it"
            if math.isinf(ratio)
            else f"learn at most {bits} about that row, labels included",
        ),
        Attacker("every other row, and a row that may be there or not", _test(rows, ratio)),
        Attacker(
            "the gradients of the rounds",
            "do what these numbers do not cover: they are about the coded data only",
        ),
    ]


def find_advantage(rows: int, ratio: float) -> float:
    """How much better than guessing the best membership test is: its true less false alarms."""
    return math.exp(log_delta(0.0, rows, ratio))


def find_power(rows: int, ratio: float, *, alarm: float) -> float:
    """The most true alarms that a membership test has at a rate of false ones, either way round."""
    if math.isinf(ratio):
        return 1.0
    shape = rows / 2
    there = special.gammaincc(shape, float(special.gammainccinv(shape, alarm)) / (1 + ratio))
    away = special.gammainc(shape, float(special.gammaincinv(shape, alarm)) * (1 + ratio))
    return float(max(there, away))


def _test(rows: int, ratio: float) -> str:
    right = (1 + find_advantage(rows, ratio)) / 2
    power = find_power(rows, ratio, alarm=_ALARM)
    return (
        f"be right about it {right:.1%} of the time at even odds (50% is guessing), and find "
        f"{power:.1%} of such rows at {_ALARM:.0%} false alarms"
    )
