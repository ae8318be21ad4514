"""What coded data is worth to an attacker, as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from scfl.report.findings import Finding


def print_account(account: Mapping[str, Any], console: Console) -> None:
    """The guarantee, the printed number beside it, and what attackers can do."""
    numbers = _table("", "value", "what it covers")
    noise = f"{account['noise']:.6g} on features and labels, {account['rows']:,} coded rows"
    numbers.add_row("noise sigma", noise, f"rows (x, y) of norm at most {account['row_norm']:g}")
    numbers.add_row(
        "(epsilon, delta)",
        f"({account['epsilon']:.4g}, {account['delta']:.3g})",
        account["covers"],
    )
    bits = account["printed_bits"]
    numbers.add_row(
        "printed budget (Theorem 2)",
        ("unbounded" if bits is None else f"{bits:.4g} bits")
        + f", entries over {account['printed_scale']:g}, h^2 = {account['printed_energy']:g}",
        account["printed_covers"],
    )
    nats = account["row_information_nats"]
    numbers.add_row(
        "mutual information",
        "unbounded" if nats is None else f"{nats:.4g} nats",
        "one row, features and labels, on average over what is known of it",
    )
    console.print(numbers)
    attackers = _table("who sees the coded data and knows", "can")
    for attacker in account["attackers"]:
        attackers.add_row(attacker["knows"], attacker["can"])
    console.print(attackers)


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """What each attack tried, what came out, and whether that is what has to come out."""
    table = _table("attack", "what came out", "as it must")
    for finding in findings:
        table.add_row(finding.attack, finding.outcome, "yes" if finding.expected else "NO")
    console.print(table)


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        table.add_column(head, overflow="fold")
    return table
