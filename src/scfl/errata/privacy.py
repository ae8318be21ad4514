"""What the paper says that the coded data gives away."""

from __future__ import annotations

import numpy as np

from scfl.core.coding import Noise, encode
from scfl.errata.erratum import Erratum, Figure
from scfl.privacy.mutual_information import measure_energy, state_bits

# Nearer to the truth than this is rounding, which differs from machine to machine.
_ROUNDING = 1e-12


def _show_entry() -> tuple[Figure, ...]:
    rows, columns, coded_rows = 2, 3, 4
    X = np.random.default_rng(6).uniform(-1, 1, (rows, columns))
    streams = [np.random.default_rng(part) for part in range(2)]
    coded, _ = encode(X, X[:, :1], coded_rows, code=streams[0], noise=streams[1])
    code = np.linalg.lstsq(X[:, 1:].T, coded[:, 1:].T)[0].T
    found = np.linalg.lstsq(code, coded[:, 0])[0]
    bits = state_bits([coded_rows], [measure_energy(X)], 0.0, scale=1.0)
    error = float(np.abs(found - X[:, 0]).max())
    return (
        Figure("bits that leak at most, printed", float(bits[0])),
        Figure("a column recovered from the others, error at most", max(error, _ROUNDING)),
    )


def _show_labels() -> tuple[Figure, ...]:
    rng = np.random.default_rng(8)
    labels = np.eye(10)[np.repeat([3, 4], 30)]
    streams = [np.random.default_rng(part) for part in range(2)]
    _, coded = encode(
        rng.standard_normal((60, 5)), labels, 50, code=streams[0], noise=streams[1], amount=Noise(5)
    )
    return (
        Figure("classes", 10.0),
        Figure("classes that the client has", 2.0),
        Figure("coded label columns that are not all zero", float(coded.any(axis=0).sum())),
    )


ERRATA = (
    Erratum(
        "entry-privacy",
        "Theorem 2",
        "False for more than one column",
        "One entry leaks at most `1/2 log2(1 + c / (h^2 + sigma^2))` bits.",
        "The other columns tell the code: at sigma = 0 and d > l_i they determine G, and the entry "
        "follows exactly. It is also about an entry, not a row, and it depends on the data, so "
        "that publishing it leaks.",
        "`scfl privacy` prints it labelled as such, beside an exact (eps, delta) for rows; "
        "`scfl privacy audit` is the attack in full.",
        _show_entry,
    ),
    Erratum(
        "bare-labels",
        "Section III-A",
        "Labels are coded without noise, and without an analysis",
        "`Y~ = G Y`: the noise is on the features only.",
        "With one-hot labels the coded column of a class that a client does not have is exactly "
        "zero, however large sigma is.",
        "`noise.labels` adds noise there too; without it every report says so.",
        _show_labels,
    ),
)
