"""The report: one HTML file with everything in it, written from recorded results alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scfl.errors import OutputError
from scfl.report import cost_figures, ledger_figures, sentences, tables
from scfl.report.canvas import marker_outline
from scfl.report.colours import COST_COLOURS, STATUS_COLOURS, Style, assign_styles
from scfl.report.curve_figures import CLOCK_TITLES, collect_panels, draw_panel
from scfl.report.curves import Metric
from scfl.report.ledger_figures import Rows, short_names
from scfl.study.conclusion import conclude
from scfl.study.participation import Participation, add_up_ledger, order_by_speed
from scfl.study.records import ClientRecord, Run, Study, load_clients, load_study
from scfl.study.summary import Clock, Summary, summarise
from scfl.study.wording import format_seconds

REPORT_NAME = "report.html"


@dataclass(frozen=True)
class Shown:
    """One label's run whose clients are shown, and everything read of it."""

    run: Run
    clients: tuple[ClientRecord, ...]
    part: Participation


@dataclass(frozen=True)
class LedgerView:
    """One label's part of the ledger section."""

    label: str
    sentence: str
    figures: tuple[Markup, ...]
    table: tables.Table | None
    refused: str
    events: tuple[tuple[float, str], ...]


def write_report(out: Path, *, target: float | None = None, reference: str | None = None) -> Path:
    """Write ``report.html`` into an output folder, from what the folder records."""
    page = render_report(load_study(out), target=target, reference=reference)
    path = Path(out) / REPORT_NAME
    part = path.with_suffix(".html.part")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error}") from error
    return path


def render_report(
    study: Study, *, target: float | None = None, reference: str | None = None
) -> str:
    """The whole page as text."""
    summary = summarise(study, target=target, reference=reference)
    styles = assign_styles(study.methods)
    shown = _choose_runs(study)
    problem = study.manifest.problem
    names = short_names([client.name for client in shown[0].clients]) if shown else ()
    speed_order = order_by_speed([one.part for one in shown]) if shown else None
    rows = None if speed_order is None else Rows(speed_order, names)
    environment = Environment(
        loader=PackageLoader("scfl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = lambda sentence: _prose(sentence, study.labels)
    return environment.get_template("report.html.j2").render(
        manifest=study.manifest,
        problem=problem,
        study=study,
        summary=summary,
        about=sentences.describe_study(study.manifest),
        unfinished=sentences.describe_unfinished(study.manifest, len(study.runs)),
        conclusions=conclude(summary),
        summary_table=tables.summary_table(summary),
        score_table=tables.score_table(summary),
        swatches={label: _swatch(style) for label, style in styles.items()},
        curves=_curve_figures(study, summary),
        ledgers=[]
        if rows is None
        else [_ledger_view(one, rows, place) for place, one in enumerate(shown)],
        ledger_hint=sentences.explain_ledger([one.part for one in shown]) if shown else "",
        setups=[] if rows is None else _setup_figures(shown, rows),
        bytes_figure=cost_figures.draw_bytes(summary, name="bytes") if shown else None,
        releases=[(one.run.label, one.run.statements) for one in shown],
        holdings=sentences.describe_holdings(study.manifest),
        holding_figures=_holding_figures(study, names),
        warnings=sentences.list_warnings(study.runs),
        diverged=[run for run in study.runs if run.diverged],
        parameters=[
            (label, sentences.describe_parameters(study.of(label))) for label in study.labels
        ],
        config=json.dumps(study.manifest.config, indent=2, ensure_ascii=False),
        shortcut=any(run.coding == "gram-shortcut" for run in study.runs),
        status_colours=STATUS_COLOURS,
        cost_colours=COST_COLOURS,
        wall_time=format_seconds(study.manifest.wall_time_s),
    )


def _choose_runs(study: Study) -> list[Shown]:
    """One run per label, all of one seed if possible: the one with the fewest diverged runs."""
    whole: dict[int, int] = {}
    for run in study.runs:
        whole[run.seed] = whole.get(run.seed, 0) + (not run.diverged)
    # max returns the first of equals, so the first configured seed wins a tie.
    seed = max(whole, key=lambda candidate: whole[candidate], default=None)
    shown = []
    for label in study.labels:
        runs = study.of(label)
        run = next((run for run in runs if run.seed == seed), runs[0])
        part = add_up_ledger(run, study.manifest.problem.clients)
        shown.append(Shown(run, load_clients(run), part))
    return shown


def _curve_figures(study: Study, summary: Summary) -> list[Markup]:
    metrics: tuple[Metric, ...] = ("accuracy", "loss")
    clocks: tuple[Clock, ...] = tuple(CLOCK_TITLES) if summary.has_setup else ("apart",)
    figures = []
    for metric in metrics:
        panels = collect_panels(study, summary, metric, clocks)
        if panels is not None:
            figures += [draw_panel(panels, clock, name=f"{metric}-{clock}") for clock in clocks]
    return figures


def _ledger_view(one: Shown, rows: Rows, place: int) -> LedgerView:
    sentence = sentences.describe_participation(one.part, [client.name for client in one.clients])
    refused = sentences.describe_refusals(one.run.refused)
    if not one.part.asked.any():
        return LedgerView(one.run.label, sentence, (), None, refused, one.run.events)
    figures = (
        ledger_figures.draw_rounds(one.part, rows, name=f"rounds-{place}"),
        ledger_figures.draw_totals(one.part, rows, name=f"totals-{place}"),
    )
    table = tables.client_table(one.part, rows.order.tolist(), one.clients)
    return LedgerView(one.run.label, sentence, figures, table, refused, one.run.events)


def _setup_figures(shown: Sequence[Shown], rows: Rows) -> list[tuple[str, Markup]]:
    return [
        (
            sentences.describe_setup(one.run, one.clients),
            cost_figures.draw_setup(
                one.run.label,
                one.clients,
                rows,
                setup_s=one.run.setup_time_s,
                name=f"setup-{place}",
            ),
        )
        for place, one in enumerate(shown)
        if one.run.setup_time_s > 0
    ]


def _holding_figures(study: Study, names: Sequence[str]) -> list[Markup]:
    problem = study.manifest.problem
    numbers = names or tuple(str(client) for client in range(problem.clients))
    rows = Rows(np.arange(problem.clients), numbers, "client")
    figures = []
    if problem.classes is not None and problem.client_classes is not None:
        figures.append(
            cost_figures.draw_partition(
                problem.client_classes, problem.classes, rows, name="partition"
            )
        )
    return [*figures, cost_figures.draw_holdings(problem.client_rows, rows, name="holdings")]


def _prose(sentence: str, labels: Sequence[str]) -> Markup:
    """A sentence whose labels and quantities do not break across lines."""
    names = "|".join(re.escape(str(escape(label))) for label in sorted(labels, key=len)[::-1])
    words = re.sub(r"(?<=\d) (?=(?:s|[kMGTP]?B)\b)", "\u00a0", str(escape(sentence)))
    if names:
        words = re.sub(rf"(?<![\w-])(?:{names})(?![\w-])", r'<span class="nb">\g<0></span>', words)
    return Markup(words)  # noqa: S704 (escaped above)


def _swatch(style: Style) -> Mapping[str, str]:
    """What the page's legends need of a style."""
    return {
        "colour": style.colour,
        "dash": " ".join(f"{1.6 * length:g}" for length in style.dash),
        "marker": marker_outline(style, 7),
    }
