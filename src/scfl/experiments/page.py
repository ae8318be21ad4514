"""An experiment as a page of Markdown: what was run, the pictures, the verdicts, the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scfl.experiments.claims import Finding, Judgement
from scfl.experiments.levels import name_level
from scfl.experiments.markdown import tabulate
from scfl.experiments.outcome import LabelNumbers, Outcome
from scfl.report.experiment_figures import CLOCK_WORDS
from scfl.study.records import Study
from scfl.study.summary import Clock, Spread
from scfl.study.wording import format_loss, format_score, format_seconds

_METHOD = (
    "Pairs of runs with the same seed: the median effect, its exact interval (at least 95%, from "
    "order statistics) and the sign test's p-value. Seconds and rounds are compared as ratios, "
    "first over second; accuracies as differences, first less second."
)
_EIGENVALUE = (
    "The smallest eigenvalue is that of the curvature X'X + X~'X~/c - n sigma^2 I, as the coded "
    "data tells it before training, the median over seeds; below 0 training has no limit. Methods "
    "without a make-up term take no curvature away."
)
_CELLS = (
    "Median final accuracies, the best of each cell in bold. The last column is how far resilient "
    "ends above the best that it had been before clients left."
)
_EXPECTED = {"less": "less", "more": "more", "same": "the same"}


def write_page(
    outcome: Outcome, pictures: Sequence[tuple[Path, str]], timing: Mapping[str, Any]
) -> str:
    """The whole page; pictures stand beside it."""
    experiment, study = outcome.experiment, outcome.first
    option = " --quick" if experiment.edition == "quick" else ""
    lines = [
        f"# {experiment.figure.title or experiment.name}",
        "",
        f"*Made by `scfl figure {experiment.name}{option}`; nothing here is typed by hand.*",
        "",
        _describe_setting(outcome),
        "",
        _describe_time(timing),
        "",
        " ".join(f"![{text}]({path.name})" for path, text in pictures),
        "",
        f"*{_caption(len(study.manifest.seeds), bands=not outcome.cells)}*",
        "",
        "## Claims",
        "",
        *_tabulate_claims(outcome.judgements),
        "",
        *_explain(outcome.judgements),
        *(_report_cells(outcome) if outcome.cells else _report_labels(outcome)),
    ]
    return "\n".join(lines) + "\n"


def _report_labels(outcome: Outcome) -> list[str]:
    return [
        "## Numbers",
        "",
        *_tabulate_numbers(outcome),
        "",
        "## Comparisons",
        "",
        _METHOD,
        "",
        *_tabulate_findings(outcome.judgements),
    ]


def _report_cells(outcome: Outcome) -> list[str]:
    """Every method's median in every cell, the best in bold; what diverged says in how many."""
    labels = list(outcome.cells[0].accuracies)
    rows = []
    for result in outcome.cells:
        best = max(result.accuracies.values())
        scores = []
        for label in labels:
            value, lost = result.accuracies[label], result.diverged[label]
            text = f"**{value:.4f}**" if value == best else f"{value:.4f}"
            scores.append(f"{text} ({lost} diverged)" if lost else text)
        cell = result.cell
        assert cell.noise is not None
        assert cell.rows is not None
        kept = "-" if result.kept is None else f"{result.kept:+.4f}"
        rows.append([f"{cell.share:.0%}", f"{cell.noise:g}", f"{cell.rows:,}", *scores, kept])
    heads = ["leave", "noise", "coded rows", *labels, "resilient since"]
    return [
        "## Cells",
        "",
        _CELLS,
        "",
        *tabulate(heads, rows),
        "",
        *_state_optimum(outcome),
    ]


def _state_optimum(outcome: Outcome) -> list[str]:
    problem = outcome.first.manifest.problem
    if problem.optimum_accuracy is None or problem.optimum_loss is None:
        return []
    best = f"accuracy {problem.optimum_accuracy:.4f} and loss {problem.optimum_loss:.4f}"
    return [f"The least-squares optimum has {best}."]


def _describe_setting(outcome: Outcome) -> str:
    study = outcome.first
    problem, clock = study.manifest.problem, study.manifest.config["clock"]
    coding = (
        "Summed codes are drawn from their exact distribution (gram shortcut). "
        if clock.get("coding") == "gram-shortcut"
        else ""
    )
    seeds = len(study.manifest.seeds)
    return (
        f"{problem.name}: {problem.rows:,} training and {problem.test_rows:,} test rows of "
        f"{problem.features:,} features, {problem.clients} clients, "
        f"{seeds} seeds (fleet, code, noise, batches, delays), "
        f"{clock.get('horizon-s', 0):,.0f} virtual seconds of training. {coding}"
        f"Every method's learning rate is found by the same search, by training loss; "
        f"the model is the {_learned(study)}."
    )


def _learned(study: Study) -> str:
    """What the model is, in a word if it is the same for all."""
    averaged = [label for label in study.labels if study.of(label)[0].learned == "average"]
    if not averaged or len(averaged) == len(study.labels):
        return "average of the iterates" if averaged else "last iterate"
    return f"average of the iterates for {', '.join(averaged)}, and the last iterate for the others"


def _describe_time(timing: Mapping[str, Any]) -> str:
    return (
        f"It took {timing['cpu_s'] / 60:.1f} CPU-minutes, {timing['wall_s'] / 60:.1f} minutes of "
        f"wall time with {timing['jobs']} processes."
    )


def _caption(seeds: int, *, bands: bool) -> str:
    if not bands:
        return f"Medians over {seeds} seeds."
    band = "5% to 95%" if seeds >= 10 else "smallest to largest"
    return f"Medians and bands ({band}) over {seeds} seeds."


def _tabulate_claims(judgements: Mapping[Clock, Sequence[Judgement]]) -> list[str]:
    clocks = list(judgements)
    heads = [CLOCK_WORDS[clock] for clock in clocks] if len(clocks) > 1 else ["verdict"]
    rows = [
        [group[0].claim.sentence, *(_emphasise(one.verdict) for one in group)]
        for group in zip(*judgements.values(), strict=True)
    ]
    return tabulate(["claim", *heads], rows)


def _emphasise(verdict: str) -> str:
    head, only, rest = verdict.partition(" where ")
    return f"**{head}**{only}{rest}"


def _explain(judgements: Mapping[Clock, Sequence[Judgement]]) -> list[str]:
    """Why, below the table, for whatever does not hold on the first clock."""
    first = next(iter(judgements.values()))
    failed = [one for one in first if one.failed and one.claim.because]
    if not failed:
        return []
    notes = [f"- *{one.claim.sentence}* {one.claim.because}" for one in failed]
    return ["What does not hold, and why:", "", *notes, ""]


def _tabulate_numbers(outcome: Outcome) -> list[str]:
    figure = outcome.experiment.figure
    curves, currency, targets = figure.kind == "curves", figure.currency, figure.targets
    rows = []
    for bits, labels in outcome.numbers.items():
        for numbers in labels:
            row = [numbers.label] if curves else [name_level(bits, currency), numbers.label]
            row += [_rate(numbers)]
            rows.append(row + _cells(numbers, targets, curves=curves))
    heads = ["method", "rate", "final accuracy"]
    if curves:
        goals = next((list(numbers.rounds) for numbers in outcome.numbers[None]), [])
        heads += ["final loss", "s per round", *(f"s to {target:g}" for target in targets)]
        heads += [*goals, "setup"]
    else:
        heads = ["budget", *heads, "printed bits", "sigma", "exact epsilon", "smallest eigenvalue"]
    heads.append("diverged")
    table = tabulate(heads, rows)
    if not curves:
        table += ["", _EIGENVALUE]
    table += ["", *_state_optimum(outcome)]
    search = outcome.first.manifest.config["search"]
    if search["learning-rates"]:
        table += ["", _search(search)]
    return table


def _search(search: Mapping[str, Any]) -> str:
    """The rule by which every method's learning rate was found."""
    tries = ", ".join(f"{rate:g}" for rate in search["learning-rates"])
    said = f"Rates are per row. The search tried {tries}"
    # Runs from before a search could go on do not say that it does not.
    if search.get("widen"):
        said += f", then up to {search['widen']} more beyond an end that won"
    if search.get("refine"):
        said += ", then between the best and its neighbours"
    return f"{said}; a rate with a star is at an end of all that it tried."


def _rate(numbers: LabelNumbers) -> str:
    if numbers.rate is None:
        return "-"
    return f"{numbers.rate:g}*" if numbers.rate_at_edge else f"{numbers.rate:g}"


def _cells(numbers: LabelNumbers, targets: Sequence[float], *, curves: bool) -> list[str]:
    accuracy = _spread(numbers.accuracy)
    diverged = f"{numbers.diverged} of {numbers.runs}"
    if curves:
        return [
            accuracy,
            format_loss(numbers.loss.median if numbers.loss else None),
            f"{numbers.round_s:.2f}",
            *(format_seconds(numbers.seconds[target].median) for target in targets),
            *(_count(spread.median) for spread in numbers.rounds.values()),
            format_seconds(numbers.setup_s) if numbers.setup_s else "none",
            diverged,
        ]
    return [
        accuracy,
        "-" if numbers.mi_bits is None else f"{numbers.mi_bits:.3g}",
        "-" if numbers.sigma is None else f"{numbers.sigma:.3g}",
        "-" if numbers.epsilon is None else f"{numbers.epsilon:.3g}",
        "-" if numbers.smallest_eigenvalue is None else f"{numbers.smallest_eigenvalue:+.3g}",
        diverged,
    ]


def _count(rounds: float) -> str:
    return f"{rounds:.0f}" if math.isfinite(rounds) else "never"


def _tabulate_findings(judgements: Mapping[Clock, Sequence[Judgement]]) -> list[str]:
    rows = []
    for clock, group in judgements.items():
        for judgement in group:
            for finding in judgement.findings:
                where = finding.where if len(judgements) == 1 else f"{finding.where} ({clock})"
                rows.append([judgement.claim.key, finding.what, where, *_result(finding)])
    return tabulate(["claim", "comparison", "where", "claimed", "effect", "p", "verdict"], rows)


def _result(finding: Finding) -> list[str]:
    claimed, effect = _EXPECTED[finding.expected], finding.effect
    if effect is None:
        return [claimed, "neither gets there", "-", "-"]
    middle, low, high = (
        _format_change(value) if finding.unit == "accuracy" else _format_ratio(value)
        for value in (effect.median, effect.low, effect.high)
    )
    return [claimed, f"{middle} [{low}, {high}]", f"{effect.p_value:.3f}", finding.verdict]


def _format_ratio(logarithm: float) -> str:
    if math.isinf(logarithm):
        return "∞" if logarithm > 0 else "0"
    ratio = math.exp(logarithm)
    return f"{ratio:,.0f}x" if ratio >= 99.5 else f"{ratio:.3g}x"


def _format_change(value: float) -> str:
    return f"{value:+.4f}" if math.isfinite(value) else "any"


def _spread(spread: Spread) -> str:
    middle, low, high = (format_score(v) for v in (spread.median, spread.low, spread.high))
    return f"{middle} ({low} to {high})"
