"""Attacks on coded data, run against the very code that clients use.

Three questions, each with an answer that a number must not contradict:

``audit_membership``  Is the guarantee true? The best test there is, the likelihood ratio, tells
    sketches with a row from sketches without. What it reaches bounds epsilon from below, by exact
    (Clopper-Pearson) intervals. The row is alone, the worst case that the guarantee allows for.
    Coded features and coded labels are tested by themselves too: one may lack its noise.
``recover_entry``     Is Theorem 2 true? Against somebody who knows the other columns it is not:
    without noise they solve for the code and then for the entry.
``guess_classes``     Do labels without noise leak? The coded column of a class that a client lacks
    is exactly zero, so the classes that it holds can be read off.

An audit that cannot fail shows nothing. ``actual_sigma`` makes the client use other noise than it
claims: with half of it the first audit has to fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from scfl.core.coding import Noise, encode
from scfl.core.parameter import Requirements
from scfl.core.randomness import Purpose, stream
from scfl.privacy.mutual_information import measure_energy, state_bits
from scfl.privacy.sketch import find_epsilon

Floats = NDArray[np.float64]

CONFIDENCE = 0.999
# What part of the promised epsilon an audit has to exhibit: a weaker one means nothing. Measured
# are 0.2 to 0.6 at 200,000 trials, for epsilon from 1 to 4; a smaller one needs more trials.
EXPECTED_SHARE = 0.2
_WIDTH = 3


@dataclass(frozen=True)
class MembershipAudit:
    """What the best membership test reached, and what was promised."""

    rows: int
    noise: float
    delta: float
    promised_epsilon: float
    measured_epsilon: float
    trials: int
    confidence: float = CONFIDENCE

    @property
    def holds(self) -> bool:
        """Whether the promise stands: the measured lower bound does not exceed it."""
        return self.measured_epsilon <= self.promised_epsilon

    @property
    def share(self) -> float:
        """How much of the promised epsilon the test exhibits: the audit's own strength."""
        return self.measured_epsilon / self.promised_epsilon


@dataclass(frozen=True)
class EntryAudit:
    """An entry that the other columns give away, and what Theorem 2 says of it."""

    noise: float
    entry: float
    recovered: float
    printed_bits: float

    @property
    def error(self) -> float:
        return abs(self.recovered - self.entry)


@dataclass(frozen=True)
class ClassAudit:
    """How many (client, class) pairs were told right, and how many clients entirely."""

    label_noise: float
    pairs_right: float
    clients_right: float


def audit_membership(
    *,
    rows: int,
    sigma: float,
    delta: float,
    row_norm: float = 1.0,
    trials: int = 200_000,
    random_state: int = 0,
    actual_sigma: float | None = None,
) -> MembershipAudit:
    """Bound epsilon from below by telling sketches with a row from sketches without."""
    with Requirements() as require:
        require.count("trials", trials, at_least=1000)
        require.count("random_state", random_state)
    promised = find_epsilon(delta, rows=rows, sigma=sigma, row_norm=row_norm)
    direction = stream(random_state, Purpose.AUDIT, 0).standard_normal(_WIDTH)
    direction /= np.linalg.norm(direction)
    used = Noise(sigma if actual_sigma is None else actual_sigma, labels=True)
    there, away = (
        _measure_sketches(
            norm * direction,
            direction,
            rows=rows,
            used=used,
            trials=trials,
            streams=(random_state, case),
        )
        for case, norm in enumerate((row_norm, 0.0))
    )
    return MembershipAudit(
        rows=rows,
        noise=sigma,
        delta=delta,
        promised_epsilon=promised,
        measured_epsilon=bound_epsilon(there, away, delta),
        trials=trials,
    )


def bound_epsilon(there: Floats, away: Floats, delta: float) -> float:
    """The epsilon that must be allowed for, given statistics (one per line) with and without a row.

    The first half of the trials chooses statistic, threshold and side, the second is measured.
    """
    half = there.shape[1] // 2
    best, chosen = -math.inf, (0, 0.0, 0)
    for line, (first, second) in enumerate(zip(there[:, :half], away[:, :half], strict=True)):
        for threshold in np.quantile(np.concatenate([first, second]), _QUANTILES).tolist():
            bounds = _bounds_at(first, second, threshold, delta)
            side = int(np.argmax(bounds))
            if bounds[side] > best:
                best, chosen = bounds[side], (line, threshold, side)
    line, threshold, side = chosen
    return max(0.0, _bounds_at(there[line, half:], away[line, half:], threshold, delta)[side])


_TAILS = np.geomspace(1e-4, 0.5, 40)
_QUANTILES = np.concatenate([_TAILS, 1 - _TAILS])


def _bounds_at(there: Floats, away: Floats, threshold: float, delta: float) -> list[float]:
    """ln((P(E) - delta) / Q(E)) from below, for E above and below, either way round."""
    bounds = []
    for first, second in ((there, away), (away, there)):
        for above in (True, False):
            hits = [int(((sample > threshold) == above).sum()) for sample in (first, second)]
            low = clopper_pearson(hits[0], len(first))[0] - delta
            high = clopper_pearson(hits[1], len(second))[1]
            bounds.append(math.log(low / high) if low > 0 else -math.inf)
    return bounds


def clopper_pearson(
    hits: int, trials: int, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """An interval that holds the true rate; both ends of a pair of them fail together that rarely.

    A bound on epsilon takes one end of each of two intervals, so each end gets half of what is left
    to chance.
    """
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, trials - hits + 1, tail))
    high = 1.0
    if hits < trials:
        high = float(special.betainccinv(hits + 1, trials - hits, tail))
    return low, high


def _measure_sketches(
    values: Floats,
    along: Floats,
    *,
    rows: int,
    used: Noise,
    trials: int,
    streams: tuple[int, int],
) -> Floats:
    """Energies of so many sketches of one row: along the row, of the features, of the labels.

    The first is what the likelihood ratio looks at. Sketches are made as clients make them.

    Coded rows are independent of each other, so one long code is many codes of ``rows`` rows.
    """
    random_state, case = streams
    features, targets = np.split(values[None, :], [_WIDTH - 1], axis=1)
    energies = np.empty((3, trials))
    size = max(1, 2_000_000 // rows)
    for turn, start in enumerate(range(0, trials, size)):
        count = min(size, trials - start)
        coded = encode(
            features,
            targets,
            rows * count,
            code=stream(random_state, Purpose.AUDIT, 1, case, turn),
            noise=stream(random_state, Purpose.AUDIT, 2, case, turn),
            amount=used,
        )
        seen = np.concatenate(coded, axis=1)
        squares = (
            np.square(seen @ along),
            np.square(coded[0]).sum(axis=1),
            np.square(coded[1]).sum(axis=1),
        )
        for line, square in enumerate(squares):
            energies[line, start : start + count] = square.reshape(count, rows).sum(axis=1)
    return energies


def recover_entry(*, sigma: float = 0.0, random_state: int = 0) -> EntryAudit:
    """Two rows of three columns, four coded rows: the other two columns give the third away.

    The attacker knows everything but one entry of the last column. Without noise the other columns
    determine the code, X~_other = G X_other, and the code determines the entry.
    """
    rows, width, coded_rows = 2, 3, 4
    rng = stream(random_state, Purpose.AUDIT, 3)
    features = rng.uniform(-1, 1, (rows, width))
    coded, _ = encode(
        features,
        np.zeros((rows, 1)),
        coded_rows,
        code=stream(random_state, Purpose.AUDIT, 4),
        noise=stream(random_state, Purpose.AUDIT, 5),
        amount=Noise(sigma),
    )
    known, hidden = features[:, :-1], features[:, -1]
    code = np.linalg.lstsq(known.T, coded[:, :-1].T, rcond=None)[0].T
    rest = coded[:, -1] - code[:, 1:] @ hidden[1:]
    recovered = float(code[:, 0] @ rest / (code[:, 0] @ code[:, 0]))
    bits = float(state_bits(coded_rows, measure_energy(features), sigma, scale=1.0))
    return EntryAudit(sigma, float(hidden[0]), recovered, bits)


def guess_classes(
    *, label_noise: float = 0.0, clients: int = 20, classes: int = 10, random_state: int = 0
) -> ClassAudit:
    """Read off the coded labels which classes each client of a label-sorted split holds.

    A class is said to be there where its coded column has more energy than noise alone has in all
    but one of a hundred cases; without noise, any energy at all.
    """
    length, coded_rows = 30, 15
    rng = stream(random_state, Purpose.AUDIT, 6)
    labels = np.sort(np.arange(clients * length) % classes).reshape(clients, length)
    targets = (labels[:, :, None] == np.arange(classes)).astype(np.float64)
    held = targets.any(axis=1)
    told = np.empty_like(held)
    for client in range(clients):
        _, coded = encode(
            rng.standard_normal((length, 2)),
            targets[client],
            coded_rows,
            code=stream(random_state, Purpose.AUDIT, 7, client),
            noise=stream(random_state, Purpose.AUDIT, 8, client),
            amount=Noise(label_noise, labels=True),
        )
        energy = np.square(coded).sum(axis=0)
        told[client] = energy > label_noise**2 * special.chdtri(coded_rows, 0.01)
    return ClassAudit(
        label_noise=label_noise,
        pairs_right=float((told == held).mean()),
        clients_right=float((told == held).all(axis=1).mean()),
    )
