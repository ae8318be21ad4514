"""What is known of a run before it starts: that it fits in memory, and that it gets anywhere."""

from __future__ import annotations

import os

import numpy as np

from scfl.core.allocation import round_up
from scfl.core.availability import Always
from scfl.core.fleet import Fleet
from scfl.core.sampling import subset_count
from scfl.errors import Problem as Issue
from scfl.methods.protocol import Deadline, Plan, ServerOnly
from scfl.methods.sizing import held_rows
from scfl.runtime.encoding import price_setup
from scfl.runtime.simulator import server_seconds
from scfl.study.sections import ClockSection
from scfl.study.wording import format_bytes, format_seconds


def find_crowding(plan: Plan, bytes_per_number: int) -> list[Issue]:
    """Say whether a plan's coded data is more than this machine can hold."""
    memory = _memory_bytes()
    if plan.code is None or memory is None:
        return []
    subsets = subset_count(plan.sampling) if plan.code.per_subset else 1
    rows = held_rows(plan.code.rows, plan.code.layout) * subsets
    row_bytes = (plan.shape.features + plan.shape.outputs) * bytes_per_number
    if rows * row_bytes <= memory:
        return []
    sentence = (
        f"{rows:,} rows of coded data take {format_bytes(rows * row_bytes)}, and this machine has "
        f"{format_bytes(memory)} of memory; give fewer than {memory // row_bytes:,}"
    )
    return [Issue("coded_rows", sentence)]


def first_round_ends(plan: Plan, fleet: Fleet, clock: ClockSection) -> float:
    """The virtual seconds before which a run has not finished a single round."""
    setup = price_setup(plan, fleet).seconds if clock.setup == "counted" else 0.0
    round_s, step_s = server_seconds(plan, fleet)
    asked = plan.loads > 0
    if isinstance(plan.wait, Deadline):
        round_s = max(round_s, plan.wait.seconds)
    elif not isinstance(plan.wait, ServerOnly) and isinstance(fleet.availability, Always):
        # Who is away is not waited for, so nothing can be said of fleets that come and go.
        earliest = fleet.law.earliest(fleet.work(plan.shape, plan.loads))
        round_s = max(round_s, float(earliest[asked].min(initial=np.inf)))
    return setup + round_s + step_s


def find_haste(clock: ClockSection, ends_s: list[float]) -> list[Issue]:
    """Say whether the horizon ends before any run has finished its first round."""
    if clock.horizon_s is None or not ends_s or clock.horizon_s * (1 + 1e-9) >= min(ends_s):
        return []
    sentence = (
        f"{clock.horizon_s:g} s is over before any method has finished a round: the first needs "
        f"{format_seconds(min(ends_s))}; give at least {round_up(min(ends_s))}"
    )
    if clock.setup == "counted":
        sentence += ', or setup = "apart" to leave the upload of coded data off the clock'
    return [Issue("clock.horizon-s", sentence)]


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        # Not every system tells.
        return None
