"""What the privacy of a run comes to, as plain values for its record."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from scfl.privacy.budget import Budget
from scfl.runtime.calibration import PrintedBudget, state_budget
from scfl.runtime.result import Result


def account_for(result: Result, budget: Budget) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The numbers of a run, and those of each client.

    ``mi_bits`` is null where the paper's number is infinite, and missing where nothing is coded.
    """
    asked = {name: value for name, value in asdict(budget).items() if value is not None}
    printed = state_budget(result.problem, result.plan)
    if printed is None:
        return {"budget": asked or None}, [{} for _ in result.plan.loads]
    whole = {"budget": asked or None, "noise_sigma": printed.sigma, **_describe(printed)}
    return whole, [{"mi_bits": _finite(bits)} for bits in printed.bits.tolist()]


def _describe(printed: PrintedBudget) -> dict[str, Any]:
    return {
        "mi_bits": _finite(printed.largest),
        "mi_bits_scale": printed.scale,
        "mi_bits_covers": printed.covers,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
