"""The commands on privacy: the noise that a budget needs, what a noise is worth, and attacks."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from scfl.cli.console import OUT, AsJson, print_json
from scfl.core.parameter import Requirements
from scfl.errors import RunError
from scfl.privacy.attacker import describe_attackers
from scfl.privacy.audit import audit_membership, guess_classes, recover_entry
from scfl.privacy.mutual_information import COVERS as PRINTED_COVERS
from scfl.privacy.mutual_information import bound_row_information, state_bits
from scfl.privacy.sketch import (
    COVERS,
    Guarantee,
    bound_ratio,
    find_delta,
    find_epsilon,
    find_noise,
    find_rows,
)
from scfl.report.findings import (
    report_classes,
    report_entry,
    report_halved,
    report_membership,
)
from scfl.report.privacy import print_account, print_findings

app = typer.Typer(
    name="privacy",
    help="The noise that a budget needs, what a noise is worth, and attacks on both.",
    no_args_is_help=True,
)

Rows = Annotated[int, typer.Option("--rows", help="Coded rows of one client, in one code.")]
Noise = Annotated[float, typer.Option("--noise", help="Noise sigma on each coded entry.")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Budget: epsilon, for one row.")]
Delta = Annotated[float, typer.Option("--delta", help="Budget: delta, for one row.")]
RowNorm = Annotated[
    float | None,
    typer.Option("--row-norm", help="Bound on the norm of every row (x, y); never guessed."),
]
Eigenvalue = Annotated[
    float,
    typer.Option(
        "--eigenvalue",
        help="Lower bound on the smallest eigenvalue of the client's [X Y]^T [X Y], itself "
        "published with privacy.",
    ),
]
Energy = Annotated[
    float, typer.Option("--energy", help="h^2 of the printed budget; 0 is the worst case.")
]
EntryBound = Annotated[
    float | None,
    typer.Option("--entry-bound", help="Largest |x| of an entry; the row norm by default."),
]


@app.command()
def noise(
    *,
    rows: Rows,
    epsilon: Epsilon,
    delta: Delta,
    row_norm: RowNorm = None,
    eigenvalue: Eigenvalue = 0.0,
    energy: Energy = 0.0,
    entry_bound: EntryBound = None,
    as_json: AsJson = False,
) -> None:
    """The least noise with which a code of so many rows keeps (epsilon, delta)."""
    known = _settle(row_norm, eigenvalue, energy, entry_bound)
    sigma = find_noise(
        epsilon, delta, rows=rows, row_norm=known.row_norm, eigenvalue=known.eigenvalue
    )
    _answer(known, as_json, rows=rows, sigma=sigma, kept=Guarantee(epsilon, delta))


@app.command()
def epsilon(
    *,
    rows: Rows,
    noise: Noise,
    delta: Delta,
    row_norm: RowNorm = None,
    eigenvalue: Eigenvalue = 0.0,
    energy: Energy = 0.0,
    entry_bound: EntryBound = None,
    as_json: AsJson = False,
) -> None:
    """The least epsilon that a noise keeps."""
    known = _settle(row_norm, eigenvalue, energy, entry_bound)
    _refuse_no_noise(noise, known)
    least = find_epsilon(
        delta, rows=rows, sigma=noise, row_norm=known.row_norm, eigenvalue=known.eigenvalue
    )
    _answer(known, as_json, rows=rows, sigma=noise, kept=Guarantee(least, delta))


@app.command()
def delta(
    *,
    rows: Rows,
    noise: Noise,
    epsilon: Epsilon,
    row_norm: RowNorm = None,
    eigenvalue: Eigenvalue = 0.0,
    energy: Energy = 0.0,
    entry_bound: EntryBound = None,
    as_json: AsJson = False,
) -> None:
    """The least delta that a noise keeps for an epsilon."""
    known = _settle(row_norm, eigenvalue, energy, entry_bound)
    _refuse_no_noise(noise, known)
    least = find_delta(
        epsilon, rows=rows, sigma=noise, row_norm=known.row_norm, eigenvalue=known.eigenvalue
    )
    _answer(known, as_json, rows=rows, sigma=noise, kept=Guarantee(epsilon, least))


@app.command()
def rows(
    *,
    noise: Noise,
    epsilon: Epsilon,
    delta: Delta,
    row_norm: RowNorm = None,
    eigenvalue: Eigenvalue = 0.0,
    energy: Energy = 0.0,
    entry_bound: EntryBound = None,
    as_json: AsJson = False,
) -> None:
    """The most coded rows that a noise covers."""
    known = _settle(row_norm, eigenvalue, energy, entry_bound)
    _refuse_no_noise(noise, known)
    most = find_rows(
        epsilon, delta, sigma=noise, row_norm=known.row_norm, eigenvalue=known.eigenvalue
    )
    _answer(known, as_json, rows=most, sigma=noise, kept=Guarantee(epsilon, delta))


@app.command()
def audit(
    *,
    rows: Annotated[int, typer.Option("--rows", help="Coded rows of one client.")] = 30,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The promise to attack.")] = 2.0,
    delta: Annotated[float, typer.Option("--delta", help="Its delta.")] = 1e-5,
    trials: Annotated[
        int, typer.Option("--trials", help="Sketches with the row, and as many without.")
    ] = 200_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the attacks' own draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Attack what clients send: membership, an entry from other columns, classes from labels."""
    sigma = find_noise(epsilon, delta, rows=rows, row_norm=1.0)
    promise: dict[str, Any] = {
        "rows": rows,
        "sigma": sigma,
        "delta": delta,
        "trials": trials,
        "random_state": seed,
    }
    findings = [
        report_membership(audit_membership(**promise)),
        report_halved(audit_membership(**promise, actual_sigma=sigma / 2)),
        report_entry(recover_entry(random_state=seed)),
        report_classes(guess_classes(random_state=seed)),
        report_classes(guess_classes(label_noise=sigma, random_state=seed)),
    ]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings, OUT)
    failed = [finding for finding in findings if not finding.expected]
    if failed:
        raise RunError(
            f"{len(failed)} of {len(findings)} audits did not come out as they must: "
            + "; ".join(f"{finding.attack}: {finding.outcome}" for finding in failed)
        )


@dataclass(frozen=True)
class _Known:
    """What is known of one client's rows, for the exact guarantee and for the printed budget."""

    row_norm: float
    eigenvalue: float
    energy: float
    scale: float


def _settle(
    row_norm: float | None, eigenvalue: float, energy: float, entry_bound: float | None
) -> _Known:
    with Requirements() as require:
        require.that(
            row_norm is not None,
            "row_norm",
            "is missing; (epsilon, delta) needs a bound on the norm of every row [x, y], which is "
            "never guessed from the data: give --row-norm",
        )
        if row_norm is not None:
            require.number("row_norm", row_norm, above=0)
        require.number("energy", energy, at_least=0)
    assert row_norm is not None
    return _Known(row_norm, eigenvalue, energy, row_norm if entry_bound is None else entry_bound)


def _refuse_no_noise(sigma: float, known: _Known) -> None:
    with Requirements() as require:
        require.number("noise", sigma, at_least=0)
        require.that(
            sigma != 0 or known.eigenvalue > known.row_norm**2,
            "noise",
            "0 keeps no budget, however large; give more than 0, or ask `scfl privacy noise` how "
            "much a budget needs",
        )


def _answer(known: _Known, as_json: bool, *, rows: int, sigma: float, kept: Guarantee) -> None:
    """Print everything that there is to say about so many coded rows with such noise."""
    bits = float(state_bits(rows, known.energy, sigma, scale=known.scale))
    ratio = bound_ratio(sigma, row_norm=known.row_norm, eigenvalue=known.eigenvalue)
    information = bound_row_information(rows, sigma, row_norm=known.row_norm)
    attackers = describe_attackers(
        rows=rows, sigma=sigma, row_norm=known.row_norm, printed_bits=bits
    )
    account = {
        "rows": rows,
        "noise": sigma,
        "epsilon": kept.epsilon,
        "delta": kept.delta,
        "row_norm": known.row_norm,
        "eigenvalue": known.eigenvalue,
        "leverage": ratio / (1 + ratio),
        "covers": COVERS,
        "printed_bits": _finite(bits),
        "printed_scale": known.scale,
        "printed_energy": known.energy,
        "printed_covers": PRINTED_COVERS,
        "row_information_nats": _finite(information),
        "attackers": [asdict(attacker) for attacker in attackers],
    }
    if as_json:
        print_json(account)
    else:
        print_account(account, OUT)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
