"""How long a round of a coded method lasts, and how many coded rows it works with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scfl.core.allocation import minimal_deadline, round_up
from scfl.core.fleet import Fleet, Shape
from scfl.errors import InfeasibleError, Problem
from scfl.methods.batches import Batches
from scfl.methods.protocol import Deadline, Layout, RowsBy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# What a tenth of the data more buys in most figures of the field.
USUAL_REDUNDANCY = 0.1


def settle_redundancy(own: float | None, batches: Batches) -> float:
    """A method's own redundancy, else that of its batches, else the usual one."""
    if own is not None:
        return own
    return USUAL_REDUNDANCY if batches.redundancy is None else batches.redundancy


def close_round_at(
    shape: Shape,
    fleet: Fleet,
    batches: Batches,
    *,
    deadline_s: float | None,
    redundancy: float,
    exclude: bool,
) -> tuple[Deadline, Ints, Floats]:
    """The deadline of a round, each client's load, and the probability that it meets it.

    Without a deadline of the user's, the first at which all but the redundant part of the rows are
    expected and everybody who is asked has a chance. Clients that cannot take part are refused by
    name, or get load 0 when ``exclude`` is set.
    """
    loads = batches.loads(shape, fleet)
    asked = loads > 0
    if deadline_s is None:
        target = min((1 - redundancy) * float(batches.largest(shape).sum()), _most(fleet, loads))
        deadline_s = minimal_deadline(shape, fleet, loads, target)
        if not exclude:
            deadline_s = max(deadline_s, _reachable(shape, fleet, loads, asked))
    probability = np.where(asked, fleet.law.cdf(fleet.work(shape, loads), deadline_s), 0.0)
    shut_out = np.flatnonzero(probability <= 0)
    if (shut_out.size and not exclude) or shut_out.size == shape.clients:
        _refuse(shape, fleet, batches, deadline_s, shut_out)
    return Deadline(float(deadline_s)), np.where(probability > 0, loads, 0), probability


def count_coded_rows(
    shape: Shape,
    coded_rows: int | None,
    redundancy: float,
    layout: Layout,
    rows_by: RowsBy = "equal",
) -> Ints:
    """The coded rows that each client sends: all of them when summed, a share when stacked.

    Stacked rows are shared out equally, by the ``"size"`` of each client's data, or by weights.
    The variance of the coded gradient is least in proportion to ||X_i|| ||X_i W - Y_i||, its
    energy, which is its size where all rows are about equally long; who knows better gives weights.
    """
    wanted = max(redundancy > 0, round(redundancy * shape.rows))
    total = wanted if coded_rows is None else coded_rows
    if layout == "summed" or total == 0:
        return np.full(shape.clients, total, dtype=np.int64)
    if total < shape.clients:
        raise InfeasibleError(
            [
                Problem(
                    "coded_rows",
                    f"{total} rows cannot be stacked from {shape.clients} clients; "
                    f"give at least {shape.clients}",
                )
            ]
        )
    if rows_by == "equal":
        return share_out(total, np.ones(shape.clients))
    weights = shape.client_rows if rows_by == "size" else np.asarray(rows_by)
    if len(weights) != shape.clients:
        raise InfeasibleError(
            [
                Problem(
                    "rows_by",
                    f"{len(weights)} weights for {shape.clients} clients; give one per client",
                )
            ]
        )
    return 1 + share_out(total - shape.clients, weights.astype(np.float64))


def held_rows(rows: Ints, layout: Layout) -> int:
    """The coded rows that the server ends up with when clients send ``rows`` each."""
    return int(rows.sum()) if layout == "stacked" else int(rows[0])


def count_server_rows(
    shape: Shape, fleet: Fleet, wait: Deadline, held: int, server_rows: int | None
) -> int:
    """The coded rows of a round: as many as the server finishes by the deadline, or as told."""
    if server_rows is None:
        server_rows = min(held, fleet.server_capacity(shape, wait.seconds))
        if server_rows < 1:
            raise InfeasibleError(
                [
                    Problem(
                        "deadline_s",
                        f"the server cannot process one coded row in {wait.seconds:g} s; give at "
                        f"least {fleet.server_seconds(shape, 1):g} s or a faster server",
                    )
                ]
            )
    check_server_rows(server_rows, held)
    return server_rows


def check_server_rows(server_rows: int, held: int) -> None:
    """Refuse to process more coded rows in a round than the server holds."""
    if server_rows > held:
        raise InfeasibleError(
            [
                Problem(
                    "server_rows",
                    f"{server_rows} rows a round, but the server holds {held}; give at most {held}",
                )
            ]
        )


def share_out(total: int, weights: Floats) -> Ints:
    """Whole numbers in proportion to ``weights`` that add up to ``total``."""
    exact = total * weights / weights.sum()
    parts: Ints = np.floor(exact).astype(np.int64)
    first = np.argsort(-(exact - parts), kind="stable")[: total - int(parts.sum())]
    parts[first] += 1
    return parts


def _most(fleet: Fleet, loads: Ints) -> float:
    """What given loads can return at all, a little below where links lose packets."""
    lossless = fleet.law.transmissions_per_packet == 1
    return float(loads.sum()) * (1.0 if lossless else 0.999)


def _reachable(shape: Shape, fleet: Fleet, loads: Ints, who: NDArray[np.bool_]) -> float:
    """A deadline that all of ``who`` can meet: at the edge, or a tenth of an upload beyond it."""
    work = fleet.work(shape, loads)
    edge = float(fleet.law.earliest(work)[who].max())
    if (fleet.law.cdf(work, edge)[who] > 0).all():
        return edge
    return edge + 0.1 * float(work.upload_s.max())


def _refuse(
    shape: Shape, fleet: Fleet, batches: Batches, deadline_s: float, shut_out: Ints
) -> None:
    names = ", ".join(fleet.names[i] for i in shut_out[:5])
    more = f" and {shut_out.size - 5} more" if shut_out.size > 5 else ""
    everybody = np.ones(shape.clients, dtype=bool)
    enough = _reachable(shape, fleet, np.maximum(batches.loads(shape, fleet), 1), everybody)
    digits = round_up(enough)
    raise InfeasibleError(
        [
            Problem(
                "deadline_s",
                f"{deadline_s:.6g} s leaves {names}{more} no chance to take part; give at least "
                f"{digits} s, smaller batches, or exclude_unreachable = true to train without them",
                float(digits),
            )
        ]
    )
