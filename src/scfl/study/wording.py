"""Numbers as people read them: one place, so that the terminal and the report say the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

NOTHING = "-"


def format_seconds(seconds: float | None) -> str:
    """Seconds to about three digits: ``0.42 s``, ``8.4 s``, ``1,650 s``."""
    if seconds is None or math.isnan(seconds):
        return NOTHING
    if math.isinf(seconds):
        return "not reached"
    return f"{_digits(seconds)} s"


def format_bytes(count: float | None) -> str:
    """Bytes in decimal units: ``53 MB``."""
    if count is None or not math.isfinite(count):
        return NOTHING
    if count < 1000:
        return f"{count:.0f} B"
    unit = min(int(math.log10(count * 1.0005) // 3), 5)
    return f"{_digits(count / 1000**unit)} {('kB', 'MB', 'GB', 'TB', 'PB')[unit - 1]}"


def format_score(score: float | None) -> str:
    """An accuracy, to three decimals."""
    return NOTHING if score is None or not math.isfinite(score) else f"{score:.3f}"


def format_loss(loss: float | None) -> str:
    """A loss, to three digits."""
    return NOTHING if loss is None or not math.isfinite(loss) else f"{loss:#.3g}".rstrip(".")


def format_ratio(ratio: float | None) -> str:
    """A speed-up: ``2.1x``."""
    if ratio is None or math.isnan(ratio):
        return NOTHING
    if math.isinf(ratio):
        return "∞"
    if ratio < 0.995:
        return f"{ratio:.2f}x"
    return f"{ratio:.1f}x" if ratio < 100 else f"{ratio:,.0f}x"


def format_number(value: float | None) -> str:
    """A count or an average count: whole where it is, else one decimal."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if abs(value - round(value)) < 0.05 else f"{value:,.1f}"


def format_weight(weight: float) -> str:
    """A sum of weights, to about four digits."""
    return f"{weight:,.0f}" if abs(weight) >= 1000 else f"{weight:.4g}"


def format_share(share: float | None) -> str:
    """A share in percent, never rounded to "none" or "all" when it is neither."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def format_range(low: float, high: float, form: Callable[[float], str]) -> str:
    """``98 to 140 s``, or one value when both read the same."""
    first, last = form(low), form(high)
    if first == last:
        return first
    number, _, unit = first.partition(" ")
    return f"{number if unit and last.endswith(f' {unit}') else first} to {last}"


def list_words(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def count_words(count: int, word: str) -> str:
    """``1 seed``, ``5 seeds``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _digits(value: float) -> str:
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.995:
        return f"{value:#.2g}"
    return f"{value:.1f}" if size < 9.95 else f"{value:,.0f}"
