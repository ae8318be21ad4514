"""The commands for training across real machines: start one and follow it, write its app, watch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from scfl.cli.console import ERR, OUT, AsJson, Overrides, print_json
from scfl.errors import OutputError, RunError
from scfl.report.html import write_report
from scfl.report.live import describe_progress, draw_network
from scfl.runtime.flower.launch import read_status, submit_run, write_app
from scfl.runtime.network.config import check_network
from scfl.study.config import read_tables
from scfl.study.network import read_network

app = typer.Typer(
    name="network", help="Train across real machines, on Flower.", no_args_is_help=True
)

Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The training to run.")]
SuperLink = Annotated[
    str, typer.Argument(help="A SuperLink that Flower's config.toml in FLWR_HOME names.")
]
_LOOK_EVERY_S = 1.0
# After Flower says that a run is over, its record may take so long to be seen here.
_RECORD_S = 5.0


@app.command()
def run(
    config: Config,
    superlink: SuperLink,
    overrides: Overrides = None,
) -> None:
    """Start a training, follow it, and end with 0 only if it did all that was asked."""
    tables = read_tables(config, overrides or ())
    out = check_network(tables).out
    before = read_network(out)
    number = submit_run(tables, superlink)
    ERR.print(f"run {number} on {superlink}", highlight=False)
    try:
        status, details = _follow(number, superlink, out, before)
    except KeyboardInterrupt:
        ERR.print(
            f"the training goes on without you; `flwr stop {number} {superlink}` ends it, "
            f"`scfl network watch {out}` follows it again",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    told = _wait_for_record(out, before)
    if told is None and status != "finished:completed":
        raise RunError(f"run {number} ended as {status}: {details or 'see `flwr log`'}")
    if told is None:
        ERR.print(
            f"{out} is not on this machine, so the results are on the server's", highlight=False
        )
        return
    _conclude(out, told)


@app.command()
def watch(
    out: Annotated[Path, typer.Argument(help="The folder of a training, on this machine.")],
    as_json: AsJson = False,
) -> None:
    """Follow a training that is running, or show how one ended."""
    told = read_network(out)
    if told is None:
        raise OutputError(f"{out} holds no network.json; give the `out` of a training")
    if as_json:
        print_json(told)
        return
    with _view() as show:
        while told["status"] == "running":
            show(told)
            time.sleep(_LOOK_EVERY_S)
            told = read_network(out) or told
    OUT.print(draw_network(told))
    _conclude(out, told)


@app.command()
def check(config: Config, overrides: Overrides = None) -> None:
    """Say everything that is wrong with a configuration, before any machine is asked."""
    checked = check_network(read_tables(config, overrides or ()))
    OUT.print(
        f"{config} is sound: {checked.method.name} for {checked.network.rounds} rounds with "
        f"{checked.network.clients} clients over the {checked.network.lane} lane.",
        highlight=False,
        soft_wrap=True,
    )


@app.command(name="app")
def write(
    folder: Annotated[Path, typer.Argument(help="The folder to write; `flwr run` takes it.")],
    config: Annotated[Path, typer.Option(help="The training's configuration.")],
) -> None:
    """Write the Flower app of a training, for those who start it with `flwr run` themselves."""
    write_app(folder, read_tables(config))
    OUT.print(f"{folder}: start it with `flwr run {folder} SUPERLINK`", highlight=False)


def _follow(
    number: int, superlink: str, out: Path, before: dict[str, Any] | None
) -> tuple[str, str]:
    """Show a run until Flower says that it is over."""
    with _view() as show:
        while True:
            told = read_network(out)
            if told is not None and told != before:
                show(told)
            status, details = read_status(number, superlink)
            if status.startswith("finished"):
                return status, details
            time.sleep(_LOOK_EVERY_S)


def _wait_for_record(out: Path, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """The record of the run that is over; None where this machine cannot see it."""
    until = time.monotonic() + _RECORD_S
    while True:
        told = read_network(out)
        fresh = told is not None and told != before
        if (fresh and told is not None and told["status"] != "running") or (
            time.monotonic() > until
        ):
            return told if fresh else None
        time.sleep(0.2)


def _conclude(out: Path, told: dict[str, Any]) -> None:
    if (out / "manifest.json").exists():
        OUT.print(f"report: {write_report(out)}", highlight=False, soft_wrap=True)
    if told["status"] == "running":
        raise RunError(
            f"the server stopped without a word after round {told['round']}; the last checkpoint "
            "is kept: start it again to go on"
        )
    if told["status"] != "complete":
        raise RunError(str(told["reason"]))
    if not told["round"]:
        raise RunError("the training ended without a single round; nothing was learned")
    OUT.print(f"{told['reason']}: {describe_progress(told)}", highlight=False, soft_wrap=True)


class _view:  # noqa: N801 - reads as a function in `with`
    """A live table on a terminal; elsewhere a line whenever something was said or evaluated."""

    def __enter__(self) -> Any:
        self._live = Live(console=ERR, auto_refresh=False) if ERR.is_terminal else None
        self._said, self._last = 0, ""
        if self._live is not None:
            self._live.start()
        return self._show

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _show(self, told: dict[str, Any]) -> None:
        if self._live is not None:
            self._live.update(draw_network(told), refresh=True)
            return
        for event in told["events"]:
            if event["at"] > self._said:
                sys.stderr.write(f"{event['at']:8.1f} s  {event['sentence']}\n")
                self._said = event["at"]
        line = describe_progress(told)
        if line != self._last:
            sys.stderr.write(f"{line}\n")
            self._last = line
