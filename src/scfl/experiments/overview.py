"""All expected verdicts at a glance: claims by experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scfl.experiments.catalogue import Experiment
from scfl.experiments.markdown import tabulate
from scfl.experiments.sentences import SENTENCES
from scfl.study.summary import Clock


def write_overview(experiments: Sequence[Experiment]) -> str:
    """All expected verdicts, claims by experiments: the paper's figures, then ours by data set.

    Verdicts are those with the setup left out, and with it counted where that is another.
    """
    told = [each for each in experiments if each.expected is not None]
    figures = [each for each in told if each.name.startswith("figure-")]
    others: dict[str, list[Experiment]] = {}
    for each in told:
        if each not in figures:
            others.setdefault(each.levels[0].study.problem.dataset, []).append(each)
    tables = [_tabulate_verdicts(group) for group in (figures, *others.values()) if group]
    return "\n".join(line for table in tables for line in [*table, ""])


def _tabulate_verdicts(experiments: Sequence[Experiment]) -> list[str]:
    verdicts = [each.expected["verdicts"] for each in experiments if each.expected is not None]
    rows = [
        [sentence, *(_shorten(known, key) for known in verdicts)]
        for key, sentence in SENTENCES.items()
    ]
    tested = [row for row in rows if any(row[1:])]
    return tabulate(["claim", *(f"`{each.name}`" for each in experiments)], tested)


def _shorten(verdicts: Mapping[str, str], key: str) -> str:
    """The verdict without the places where it holds; the experiment's page has those."""
    clocks: tuple[Clock, Clock] = ("apart", "counted")
    found = [verdicts.get(f"{key} / {clock}") for clock in clocks]
    heads = ["partly" if " where " in one else one for one in found if one]
    if not heads:
        return ""
    return heads[0] if len(set(heads)) == 1 else f"{heads[0]} (counted: {heads[1]})"
