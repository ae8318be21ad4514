"""The commands on studies: run one, check it, look ahead, and write its report."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from scfl.cli.console import (
    ERR,
    OUT,
    AsJson,
    ConfigPath,
    Jobs,
    Overrides,
    RunBar,
    print_json,
    show_progress,
)
from scfl.core.parameter import suggest
from scfl.errors import ConfigError, RunError
from scfl.experiments.advice import advise
from scfl.report.html import write_report
from scfl.report.outlook import print_outlook
from scfl.report.terminal import print_summary
from scfl.study.config import check_tables, load_study_config, parse_tables
from scfl.study.plan import choose_label, look_ahead
from scfl.study.records import load_study
from scfl.study.run import Ready, check_file, check_study, run_study

app = typer.Typer()


@app.command()
def demo(
    jobs: Jobs = 2,
    out: Annotated[Path, typer.Option(help="Where results and report go.")] = Path("runs/demo"),
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print the demo's configuration and stop.")
    ] = False,
) -> None:
    """Compare SCFL with FedAvg and FL-PMA on handwritten digits, in well under a minute."""
    text = files("scfl.study").joinpath("demo.toml").read_text(encoding="utf-8")
    if show_config:
        sys.stdout.write(text)
        return
    _run(check_study(check_tables(parse_tables(text, "demo.toml"), name="demo")), out, jobs)


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option(help="Where results and report go; runs/NAME by default.")
    ] = None,
    jobs: Jobs = 1,
) -> None:
    """Run a study from a file, finish an interrupted one, and write its report."""
    ready = check_file(config, overrides or ())
    _run(ready, out or Path("runs") / ready.study.name, jobs)


@app.command()
def check(config: ConfigPath, overrides: Overrides = None) -> None:
    """Say everything that is wrong with a configuration and its data, before anything is run."""
    ready = check_file(config, overrides or ())
    _warn(ready)
    shape, study = ready.problem.shape, ready.study
    least = "at least " if study.search.goes_on else ""
    OUT.print(
        f"{config} is sound: {least}{ready.runs} runs ({len(study.methods)} methods, "
        f"{len(study.seeds)} seeds), {shape.clients} clients with {shape.rows} rows of "
        f"{shape.features} features, {shape.outputs} outputs.",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a study, finished or not.")],
) -> None:
    """Write a study's report again and show its table."""
    print_summary(load_study(folder), OUT)
    OUT.print(f"report: {write_report(folder)}", highlight=False, soft_wrap=True)


@app.command()
def plan(
    config: ConfigPath,
    overrides: Overrides = None,
    *,
    method: Annotated[
        str | None, typer.Option(help="Label of the method; the first with a deadline by default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the fleet; the study's first by default.")
    ] = None,
    wants_advice: Annotated[
        bool, typer.Option("--advise", help="Say which method to try first, and stop.")
    ] = False,
    losing: Annotated[
        float | None,
        typer.Option(help="With --advise: the share of clients that will be gone at a time."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a method will do on this fleet: deadline, loads, arrivals, coded rows, upload."""
    study = load_study_config(config, overrides or ())
    if wants_advice:
        advice = advise(study, losing=losing, seed=seed)
        if as_json:
            print_json(asdict(advice))
        else:
            OUT.print(advice.sentence, highlight=False, soft_wrap=True, markup=False)
        return
    if losing is not None:
        raise ConfigError("--losing: belongs to --advise; add it, or leave --losing out")
    label = choose_label(study) if method is None else method
    if label not in study.methods:
        raise ConfigError(f"--method {label}: not in {config}; {suggest(label, study.methods)}")
    outlook = look_ahead(study, label, study.seeds[0] if seed is None else seed)
    if as_json:
        print_json(outlook)
    else:
        print_outlook(outlook, OUT)


def _run(ready: Ready, out: Path, jobs: int) -> None:
    _warn(ready)
    try:
        summaries = _run_with_progress(ready, out, jobs)
    except KeyboardInterrupt:
        ERR.print(
            f"interrupted: finished runs are kept in {out}; "
            "give the same command again to do the rest",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    page = write_report(out)
    print_summary(load_study(out), OUT)
    OUT.print(f"report: {page}", highlight=False, soft_wrap=True)
    diverged = [summary for summary in summaries if summary["diverged"]]
    if diverged:
        first = diverged[0]
        raise RunError(
            f"{len(diverged)} of {len(summaries)} runs diverged; {first['label']}, "
            f"seed {first['seed']}: {first['reason']}"
        )


def _warn(ready: Ready) -> None:
    for warning in ready.warnings:
        line = f"warning: {warning}"
        ERR.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _run_with_progress(ready: Ready, out: Path, jobs: int) -> list[dict[str, Any]]:
    with show_progress() as progress:
        bar = RunBar(progress, ready.runs)
        return run_study(ready, out, jobs=jobs, on_done=bar.advance, on_more=bar.more)
