"""A training while it runs: who is here, who is late how often, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_LATEST = 5


def draw_network(told: Mapping[str, Any]) -> RenderableType:
    """A training's record as a table of clients under a line on the whole."""
    table = Table(box=None, pad_edge=False)
    for name in ("client", "", "rows", "in time", "late", "away", "refused", "p", "up", "down"):
        table.add_column(name, justify="left" if name in {"client", ""} else "right")
    for client in told["clients"]:
        probability = client["probability"]
        table.add_row(
            client["name"],
            _presence(client),
            str(client["rows"]),
            str(client["arrived"]),
            str(client["late"]),
            str(client["absent"]),
            str(client["refused"]),
            "-" if probability is None else f"{probability:.2f}",
            format_bytes(client["bytes_up"]),
            format_bytes(client["bytes_down"]),
        )
    events = [f"{event['at']:8.1f} s  {event['sentence']}" for event in told["events"][-_LATEST:]]
    lines = [f"released: {told['released']}"] if told["released"] else []
    if told["epsilon"] is not None:
        lines.append(f"privacy spent: epsilon {told['epsilon']:.4g} at delta {told['delta']:g}")
    return Group(
        Text(describe_progress(told), style="bold"), table, Text("\n".join([*lines, *events]))
    )


def describe_progress(told: Mapping[str, Any]) -> str:
    """One line: the phase, the round, and what is known of the model."""
    parts = [f"{told['method']}: {told['phase'] or told['status']}"]
    parts.append(f"round {told['round']} of {told['rounds']}")
    if told["loss"] is not None:
        parts.append(f"loss {told['loss']:.4g} on {told['measured_on']}")
    if told["accuracy"] is not None:
        parts.append(f"accuracy {told['accuracy']:.4f}")
    if told["bytes_up"]:
        parts.append(
            f"{format_bytes(told['bytes_up'])} up, {format_bytes(told['bytes_down'])} down"
        )
    return ", ".join(parts)


def _presence(client: Mapping[str, Any]) -> str:
    if client["stage"] == "out":
        return "refused"
    return str(client["stage"]) if client["here"] else "away"


def format_bytes(count: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
