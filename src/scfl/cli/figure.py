"""The command on experiments: run one, draw it, and say claim by claim what holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scfl.cli.console import ERR, OUT, Jobs, RunBar, show_progress
from scfl.errors import ParameterError, Problem, RunError
from scfl.experiments.catalogue import Experiment, list_experiments, load_experiment
from scfl.experiments.run import Finished, run_experiment
from scfl.experiments.terminal import print_claims, print_experiments

app = typer.Typer()


@app.command()
def figure(
    name: Annotated[
        str | None, typer.Argument(help="A name that --list shows, or a config.toml of yours.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version that takes a minute or two.")
    ] = False,
    jobs: Jobs = 2,
    out: Annotated[
        Path | None, typer.Option(help="Where everything goes; runs/NAME by default.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show the experiments and stop.")] = False,
) -> None:
    """Run one of the paper's experiments on the real data: pictures, and a verdict per claim."""
    if listed:
        print_experiments([load_experiment(known) for known in list_experiments()], OUT)
        return
    if name is None:
        raise ParameterError(
            [Problem("NAME", f"is missing; give one of {', '.join(list_experiments())}")]
        )
    experiment = load_experiment(name, "quick" if quick else "full")
    suffix = "-quick" if quick else ""
    folder = out or Path("runs") / f"{experiment.name}{suffix}"
    try:
        finished = _run(experiment, folder, jobs)
    except KeyboardInterrupt:
        ERR.print(
            f"interrupted: finished runs are kept in {folder}; "
            "give the same command again to do the rest",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    print_claims(finished.outcome, OUT)
    _say(f"page: {finished.page}")
    for picture in finished.pictures:
        _say(f"picture: {picture}")
    _say(
        f"took {finished.timing['wall_s'] / 60:.1f} minutes of wall time, "
        f"{finished.timing['cpu_s'] / 60:.1f} CPU-minutes"
    )
    if finished.surprises is None:
        _say("nothing was expected of this edition, so nothing was compared")
    elif finished.surprises:
        more = f" (and {len(finished.surprises) - 5} more)" if len(finished.surprises) > 5 else ""
        raise RunError("not everything is as expected: " + "; ".join(finished.surprises[:5]) + more)
    else:
        _say("every number and verdict is as expected")


def _run(experiment: Experiment, folder: Path, jobs: int) -> Finished:
    with show_progress() as progress:
        bar = RunBar(progress)

        def start(runs: int) -> None:
            bar.more(runs)
            least = "at least " if experiment.levels[0].study.search.goes_on else ""
            _say(f"{experiment.name}: {least}{runs} runs, {_estimate(experiment, jobs)}")

        return run_experiment(
            experiment,
            folder,
            jobs=jobs,
            on_start=start,
            on_done=bar.advance,
            on_more=bar.more,
        )


def _estimate(experiment: Experiment, jobs: int) -> str:
    if experiment.expected is None:
        return "and nobody has measured yet how long that takes"
    minutes = experiment.expected["took"]["cpu_s"] / 60
    return (
        f"{minutes:.1f} CPU-minutes where it was measured: "
        f"about {max(minutes / jobs, 0.1):.1f} minutes with {jobs} processes on free cores"
    )


def _say(text: str) -> None:
    OUT.print(text, highlight=False, soft_wrap=True, markup=False)
