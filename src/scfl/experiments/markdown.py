"""Tables as Markdown has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def tabulate(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [
        "| " + " | ".join(heads) + " |",
        "| " + " | ".join("---" for _ in heads) + " |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
