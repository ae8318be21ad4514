"""What an erratum is: what is printed, what is true, and a computation that tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One number that a demonstration comes to."""

    label: str
    value: float

    @property
    def text(self) -> str:
        """Three digits, without an exponent where none is needed."""
        value = self.value
        if value != 0 and not 1e-3 <= abs(value) < 1e6:
            return f"{value:.2e}"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Erratum:
    """One error of the paper; ``consequence`` is what scfl does instead."""

    name: str
    place: str
    title: str
    printed: str
    true: str
    consequence: str
    demonstrate: Callable[[], tuple[Figure, ...]]
