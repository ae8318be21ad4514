"""What a person should see in each section, said in words taken from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scfl.report.ledger_figures import MOST_ROWS
from scfl.study.participation import Participation
from scfl.study.records import (
    ABSENT,
    ARRIVED,
    LATE,
    ClientRecord,
    Manifest,
    Refused,
    Run,
)
from scfl.study.wording import (
    count_words,
    format_number,
    format_range,
    format_seconds,
    format_share,
    list_words,
)

_MOST_LISTED = 8
# An average that rounds to 0.0 is not worth a word.
_VISIBLE = 0.05


def describe_study(manifest: Manifest) -> str:
    """The problem in one line."""
    problem = manifest.problem
    parts = [
        problem.name,
        count_words(problem.clients, "client"),
        count_words(problem.rows, "training row"),
        count_words(problem.test_rows, "test row"),
        count_words(problem.features, "feature"),
    ]
    if problem.classes is not None:
        parts.append(f"{len(problem.classes)} classes")
    elif problem.outputs > 1:
        parts.append(count_words(problem.outputs, "output"))
    return " · ".join([*parts, count_words(len(manifest.seeds), "seed")])


def describe_refusals(refused: Sequence[Refused]) -> str:
    """Whose answers did not count, and why; being late is told elsewhere."""
    faults = [
        f"{one.client}, {one.why} ({count_words(one.times, 'time')})"
        for one in refused
        if one.why != "stale"
    ]
    return f"Answers that were refused: {'; '.join(faults)}." if faults else ""


def describe_unfinished(manifest: Manifest, runs: int) -> str | None:
    """A warning above everything else when runs are missing."""
    if manifest.status == "complete":
        return None
    how = "still running or was interrupted" if manifest.status == "running" else "incomplete"
    return (
        f"This study is {how}: what follows rests on the {count_words(runs, 'run')} that finished. "
        "Start `scfl run` again with the same folder to finish the others."
    )


def explain_ledger(parts: Sequence[Participation]) -> str:
    """How to read the pictures, and what a cell holds where it cannot be one round."""
    words = (
        "Each row is a client, the fastest on top and in the same order for every method; each "
        "column is a round. Look for rows that are mostly orange or black: the model hears little "
        "of those clients. "
    )
    seeds = sorted({part.run.seed for part in parts})
    words += (
        f"Seed {seeds[0]} is shown."
        if len(seeds) == 1
        else (f"Seeds {list_words([str(seed) for seed in seeds])} are shown.")
    )
    rounds = max((math.ceil(part.rounds / part.counts.shape[1]) for part in parts), default=1)
    clients = max((math.ceil(part.clients / MOST_ROWS) for part in parts), default=1)
    held = [
        f"{count} {word}" for count, word in ((rounds, "rounds"), (clients, "clients")) if count > 1
    ]
    if held:
        words += f" A cell holds up to {list_words(held)}; its colour mixes what happened in them."
    return words


def describe_participation(part: Participation, names: Sequence[str]) -> str:
    """Who took part in one run, on average and at worst."""
    clients, asked = part.clients, part.asked
    if not asked.any():
        return "No client is asked for anything in the rounds: the server works on what it holds."
    mean = part.status_rounds.sum(axis=0) / part.rounds
    others = (
        (float(mean[LATE]), "late"),
        (float(mean[ABSENT]), "absent"),
        (clients - float(mean[[ARRIVED, LATE, ABSENT]].sum()), "not asked"),
    )
    pieces = [f"{format_number(count)} {word}" for count, word in others if count >= _VISIBLE]
    arrived = f"{format_number(mean[ARRIVED])} of {clients:,} clients arrived in time"
    words = f"In an average round {list_words([arrived, *pieces])}"
    if part.round_s is not None:
        words += f"; half of the rounds took {format_seconds(part.round_s)} or less"
    words += "."
    share = np.where(asked > 0, part.share_arrived, math.inf)
    worst = int(np.argmin(share))
    silent = [names[client] for client in np.flatnonzero(share == 0).tolist()]
    if share[worst] >= 1:
        words += " Every client arrived in every round that it was asked in."
    elif len(silent) > _MOST_LISTED:
        words += f" {len(silent):,} clients never arrived in time."
    elif silent:
        words += f" Never in time: {list_words(silent)}."
    else:
        seldom = format_share(float(share[worst]))
        words += f" Least in time: {names[worst]}, in {seldom} of its rounds."
    if part.share_lost > 0:
        words += f" {format_share(part.share_lost)} of all weight was lost."
    return words


def describe_setup(run: Run, clients: Sequence[ClientRecord]) -> str:
    """What one method makes its clients do before training."""
    total = [client.encoding_s + client.coded_upload_s for client in clients]
    slowest = clients[int(np.argmax(total))]
    encoding = [client.encoding_s for client in clients]
    upload = [client.coded_upload_s for client in clients]
    words = (
        f"{run.label}: encoding takes a client "
        f"{format_range(min(encoding), max(encoding), format_seconds)} and the upload "
        f"{format_range(min(upload), max(upload), format_seconds)}; "
        f"training starts after {format_seconds(run.setup_time_s)}"
    )
    if math.isclose(max(total), run.setup_time_s, rel_tol=0.01):
        words += f", when the slowest ({slowest.name}) is done"
    return words + "."


def list_warnings(runs: Sequence[Run]) -> list[str]:
    """What runs warned of before they began: the first seed's words for all seeds of a label."""
    found: dict[str, tuple[str, int]] = {}
    for run in runs:
        if run.warning is not None:
            words, count = found.get(run.label, (run.warning, 0))
            found[run.label] = (words, count + 1)
    return [
        f"{label}, before its first round ({count_words(count, 'run')}): {words}."
        for label, (words, count) in found.items()
    ]


def describe_parameters(runs: Sequence[Run]) -> str:
    """The parameters of one label, those that are set; several values where seeds differ."""
    values: dict[str, list[str]] = {}
    for run in runs:
        for name, value in _flatten(run.parameters):
            found = values.setdefault(name.replace("_", " "), [])
            word = f"{value:g}" if isinstance(value, float) else str(value)
            if word not in found:
                found.append(word)
    return ", ".join(f"{name} {' or '.join(found)}" for name, found in values.items()) or "none"


def describe_holdings(manifest: Manifest) -> str:
    """How unequal the clients are."""
    problem = manifest.problem
    rows = problem.client_rows
    words = f"A client holds {format_range(min(rows), max(rows), format_number)} rows"
    if problem.client_classes is None or problem.classes is None:
        return words + "."
    held = [sum(count > 0 for count in counts) for counts in problem.client_classes]
    kinds = format_range(min(held), max(held), format_number)
    return f"{words} of {kinds} of the {len(problem.classes)} classes."


def _flatten(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            yield from _flatten(value)
        elif isinstance(value, bool):
            yield name, "on" if value else "off"
        elif value is not None:
            yield name, value
