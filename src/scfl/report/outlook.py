"""What a method will do, and which methods and data sets there are, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scfl.study.wording import format_bytes, format_number, format_seconds, format_share

_BAR = 40


def print_methods(rows: Sequence[Mapping[str, str]], console: Console) -> None:
    """Print name, summary and source of each method."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("name", "what a round does", "from"):
        table.add_column(head, no_wrap=head != "what a round does")
    for row in rows:
        table.add_row(*(escape(row[key]) for key in ("name", "summary", "citation")))
    console.print(table)


def print_sets(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print what is known of each data set, and whether it is on this machine."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("name", "what it is", "rows + test", "from", "here"):
        number = head == "rows + test"
        table.add_column(head, justify="right" if number else "left", no_wrap=head != "what it is")
    for row in rows:
        tested = f" + {row['test_rows']:,}" if row["test_rows"] else ""
        texts = [escape(row[key]) for key in ("name", "summary", "registry", "here")]
        table.add_row(*texts[:2], f"{row['rows']:,}{tested}", *texts[2:])
    console.print(table)


def print_outlook(outlook: Mapping[str, Any], console: Console) -> None:
    """Print a plan: a sentence on the round, a line per client, and the price of a short round."""
    console.print(_describe_round(outlook), markup=False, highlight=False)
    console.print(_tabulate_clients(outlook["clients"]))
    console.print(
        "In time: how likely a client's answer is to be there. Busy, waits: its shares of a round. "
        "Coded, upload, encode: what it sends before the first round, and how long that takes.",
        highlight=False,
    )
    if outlook["deadline_by_redundancy"]:
        console.print("Deadline against redundancy, with loads allocated for it:")
        longest = max(point["deadline_s"] for point in outlook["deadline_by_redundancy"])
        for point in outlook["deadline_by_redundancy"]:
            bar = "█" * max(1, round(_BAR * point["deadline_s"] / longest))
            console.print(
                f"{point['redundancy']:5.0%} {bar} {format_seconds(point['deadline_s'])}",
                highlight=False,
            )


def _describe_round(outlook: Mapping[str, Any]) -> str:
    closes = (
        f"A round closes after {format_seconds(outlook['deadline_s'])}"
        if outlook["deadline_s"] is not None
        else f"A round lasts {format_seconds(outlook['round_s'])} on average"
    )
    returned = (
        f"; {format_number(outlook['expected_rows'])} of {outlook['batch_rows']:,} rows of a batch "
        "are expected back."
        if outlook["expected_rows"]
        else "; no client is asked."
    )
    coded = "No coded data."
    if outlook["coded_rows"]:
        coded = (
            f"Coded data: {outlook['coded_rows']:,} rows at the server, which processes "
            f"{outlook['server_rows']:,} a round in {format_seconds(outlook['server_s'])}; "
            f"making and uploading them takes {format_seconds(outlook['setup_s'])} beforehand."
        )
    who = f"{outlook['label']} ({outlook['method']}), seed {outlook['seed']}."
    return f"{who} {closes}{returned} {coded}"


def _tabulate_clients(clients: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("client", no_wrap=True)
    heads = ["rows", "load", "in time", "busy", "waits", "coded", "upload", "encode"]
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for client in clients:
        asked = client["load"] > 0
        table.add_row(
            escape(client["name"]),
            f"{client['rows']:,}",
            f"{client['load']:,}",
            format_share(client["arrival_probability"]) if asked else "-",
            format_share(client["compute_share"]) if asked else "-",
            format_share(client["wait_share"]) if asked else "-",
            format_bytes(client["upload_bytes"]),
            format_seconds(client["upload_s"]),
            format_seconds(client["encoding_s"]),
        )
    return table
