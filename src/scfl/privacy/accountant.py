"""From what a client released to what is guaranteed: events in, numbers out.

The guarantee is for one row [x, y] of norm at most C, put in or left out. A row is in one code of
a client only, so codes of different rows cost as much as one. A sketch whose labels carry no noise
guarantees nothing, and neither does anything that is sent as it is. A summed sketch is counted as
if the client's own code were seen: nothing here computes the sum securely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from scfl.privacy.composition import compose
from scfl.privacy.events import Gradients, Products, Release, Sketch
from scfl.privacy.sketch import Guarantee, find_epsilon, find_noise


@dataclass(frozen=True)
class Account:
    """What holds for one client: for its coded rows by themselves, and for all that it sent."""

    coded: Guarantee | None
    whole: Guarantee | None


def account_for(
    events: Sequence[Release], *, delta: float | None, row_norm: float | None
) -> Account:
    """The guarantees that follow from a client's releases; None where there is none."""
    if delta is None or row_norm is None:
        return Account(None, None)
    if not events:
        return Account(None, Guarantee(0.0, 0.0))
    sketches = tuple(event for event in events if isinstance(event, Sketch))
    coded = None
    if sketches and not any(is_uncovered(event) for event in sketches):
        coded = Guarantee(_find_epsilon(sketches, delta, row_norm), delta)
    if any(is_uncovered(event) for event in events):
        return Account(coded, None)
    return Account(coded, Guarantee(_find_epsilon(tuple(events), delta, row_norm), delta))


def noise_for(events: Sequence[Release], *, epsilon: float, delta: float, row_norm: float) -> float:
    """The least noise with which every sketch among the events keeps (epsilon, delta)."""
    return max(
        (
            _find_noise(epsilon, delta, event.rows, row_norm * event.row_weight)
            for event in set(events)
            if isinstance(event, Sketch) and event.row_weight > 0
        ),
        default=0.0,
    )


def is_uncovered(event: Release) -> bool:
    """Whether an event is outside of every guarantee."""
    if isinstance(event, Products):
        return True
    if isinstance(event, Gradients):
        return event.sigma == 0
    return event.sigma == 0 or not event.labels_noised


@lru_cache(maxsize=4096)
def _find_epsilon(events: tuple[Release, ...], delta: float, row_norm: float) -> float:
    """Exact for one sketch; for anything more, by composition."""
    # Rows that enter a code with no weight at all are not in it.
    events = tuple(e for e in events if not isinstance(e, Sketch) or e.row_weight > 0)
    if not events:
        return 0.0
    first = events[0]
    if len(events) == 1 and isinstance(first, Sketch):
        return find_epsilon(
            delta, rows=first.rows, sigma=first.sigma, row_norm=row_norm * first.row_weight
        )
    return compose(events, delta=delta, row_norm=row_norm)


@lru_cache(maxsize=4096)
def _find_noise(epsilon: float, delta: float, rows: int, row_norm: float) -> float:
    return find_noise(epsilon, delta, rows=rows, row_norm=row_norm)
