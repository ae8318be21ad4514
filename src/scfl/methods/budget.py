"""Whether a study's budget and its methods go together, told from the file alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scfl.core.parameter import show
from scfl.errors import InfeasibleError, Problem
from scfl.methods.protocol import Method
from scfl.privacy.budget import Budget
from scfl.privacy.composition import require_accounting


def check_budget(
    budget: Budget, tables: Mapping[str, Any], methods: Mapping[str, Method]
) -> list[Problem]:
    """Noise comes from a budget or from the methods, and a budget needs noise to set."""
    if budget.protects_gradients is not None:
        try:
            require_accounting()
        except InfeasibleError as error:
            return [problem.within("privacy") for problem in error.problems]
    if not budget.calibrates:
        return []
    if not any(hasattr(method, "noise") for method in methods.values()):
        return [
            Problem(
                "privacy",
                "no method here has noise that could be set by a budget; "
                "leave the table out or add a method that codes data, such as [methods.scfl]",
            )
        ]
    owners = {"defaults": tables.get("defaults", {})}
    owners |= {f"methods.{label}": entry for label, entry in tables["methods"].items()}
    return [
        Problem(
            f"{owner}.noise",
            f"{show(entry['noise'])} is given, and [privacy] asks for the noise that its budget "
            "needs; leave one of them out",
        )
        for owner, entry in owners.items()
        if isinstance(entry, Mapping) and _contradicts(budget, entry.get("noise"))
    ]


def _contradicts(budget: Budget, noise: Any) -> bool:
    """Whether a method's own noise leaves a budget no choice; 0 is a choice too."""
    if not isinstance(noise, Mapping):
        return noise is not None
    return "sigma" in noise or (budget.epsilon is not None and noise.get("labels") is False)
