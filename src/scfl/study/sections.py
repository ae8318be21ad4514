"""The tables of a configuration, each a frozen dataclass that checks itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from scfl.core.delay import DelayLaw, ShiftedExponential, WirelessEdge
from scfl.core.fleet import Fleet, wireless_edge
from scfl.core.parameter import Requirements, suggest
from scfl.data.catalogue import known_sets
from scfl.data.features import RandomFourier
from scfl.data.partition import Dirichlet, Iid, LabelSorted, Partition, SizeSkewed
from scfl.data.table import SUFFIXES, TableColumns
from scfl.errors import ParameterError, Problem

DATASETS = ("digits", "regression", *known_sets())


@dataclass(frozen=True)
class ProblemSection:
    """``dataset`` names a set, a made-up "regression" (rows, columns, outputs), or a file."""

    dataset: str = "digits"
    test_fraction: float = 0.2
    task: Literal["auto", "classification", "regression"] = "auto"
    intercept: bool = False
    dtype: Literal["float32", "float64"] = "float32"
    random_state: int = 0
    features: RandomFourier | None = None
    table: TableColumns | None = None
    rows: int = 2000
    columns: int = 50
    outputs: int = 1

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.that(
                isinstance(self.dataset, str)
                and (self.dataset in DATASETS or self.dataset.endswith((".npz", *SUFFIXES))),
                "dataset",
                f"{self.dataset!r} is not known; {suggest(str(self.dataset), DATASETS)}, "
                "or the path of an .npz, .csv or .parquet file",
            )
            require.that(
                self.is_table == (self.table is not None),
                "table",
                "is missing; name at least the target: [problem.table] target = 'COLUMN'"
                if self.is_table
                else f"says what the columns of a table are for, and {self.dataset!r} is none",
            )
            require.number("test_fraction", self.test_fraction, at_least=0, below=1)
            require.choice("task", self.task, ("auto", "classification", "regression"))
            require.that(isinstance(self.intercept, bool), "intercept", "give true or false")
            require.choice("dtype", self.dtype, ("float32", "float64"))
            require.count("random_state", self.random_state)
            for name in ("rows", "columns", "outputs"):
                require.count(name, getattr(self, name), at_least=1)

    @property
    def is_table(self) -> bool:
        return isinstance(self.dataset, str) and self.dataset.endswith(SUFFIXES)


@dataclass(frozen=True)
class PartitionSection:
    """``kind = "column"`` takes the clients that the data file names row by row.

    ``alpha``, ``min-partition-size`` and ``self-balancing`` are for ``kind = "dirichlet"``.
    """

    kind: Literal[
        "label-sorted", "iid", "dirichlet", "linear", "square", "exponential", "column"
    ] = "label-sorted"
    clients: int = 20
    alpha: float = 0.5
    min_partition_size: int = 10
    self_balancing: bool = False

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.choice("kind", self.kind, get_args(get_type_hints(type(self))["kind"]))
        # The rule's own checks are these fields' checks.
        Dirichlet(self.clients, self.alpha, self.min_partition_size, self.self_balancing)

    @property
    def rule(self) -> Partition | None:
        if self.kind == "column":
            return None
        if self.kind == "label-sorted":
            return LabelSorted(self.clients)
        if self.kind == "iid":
            return Iid(self.clients)
        if self.kind == "dirichlet":
            return Dirichlet(self.clients, self.alpha, self.min_partition_size, self.self_balancing)
        return SizeSkewed(self.clients, self.kind)


@dataclass(frozen=True)
class FleetSection:
    """The paper's wireless edge with its numbers; each range is drawn from uniformly.

    Without ``random-state`` every seed of the study draws a fleet of its own. Machines that have
    been measured are given one by one, in ``client-macs-per-s`` and ``client-uplink-bps``: a
    training on a network writes such a table.
    """

    law: Literal["wireless-edge", "shifted-exponential"] = "wireless-edge"
    uplink_bps: tuple[float, float] = (0.3e6, 1.0e6)
    macs_per_s: tuple[float, float] = (0.1 * 1_536e3, 1_536e3)
    downlink_bps: float = 1.0e6
    server_macs_per_s: float = 15_360e3
    erasure: float = 0.1
    variation: float = 2.0
    header: float = 1.1
    macs_per_row: float | None = None
    payload_bits: float | None = None
    random_state: int | None = None
    client_macs_per_s: tuple[float, ...] | None = None
    client_uplink_bps: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.choice("law", self.law, ("wireless-edge", "shifted-exponential"))
            require.that(
                (self.client_macs_per_s is None) == (self.client_uplink_bps is None),
                "client_uplink_bps",
                "comes with client-macs-per-s; give both, one number per client, or neither",
            )
        # Drawing one small fleet runs every other check.
        self.draw(len(self.client_macs_per_s or (1,)), 0)

    def describe(self) -> dict[str, Any]:
        """What identifies the machines; what was not measured is left out."""
        measured = ("client_macs_per_s", "client_uplink_bps")
        told = asdict(self)
        return {k: v for k, v in told.items() if k not in measured or v is not None}

    def draw(self, clients: int, seed: int) -> Fleet:
        """The fleet of one seed."""
        law: DelayLaw = WirelessEdge(self.erasure)
        if self.law == "shifted-exponential":
            law = ShiftedExponential(self.erasure, self.variation)
        if self.client_macs_per_s is not None and self.client_uplink_bps is not None:
            if len(self.client_macs_per_s) != clients:
                raise ParameterError(
                    [
                        Problem(
                            "client_macs_per_s",
                            f"{len(self.client_macs_per_s)} machines for {clients} clients; "
                            "give one number per client",
                        )
                    ]
                )
            return Fleet(
                macs_per_s=np.array(self.client_macs_per_s),
                uplink_bps=np.array(self.client_uplink_bps),
                downlink_bps=self.downlink_bps,
                server_macs_per_s=self.server_macs_per_s,
                law=law,
                header=self.header,
                macs_per_row=self.macs_per_row,
                payload_bits=self.payload_bits,
            )
        return wireless_edge(
            clients,
            random_state=seed if self.random_state is None else self.random_state,
            uplink_bps=self.uplink_bps,
            macs_per_s=self.macs_per_s,
            downlink_bps=self.downlink_bps,
            server_macs_per_s=self.server_macs_per_s,
            law=law,
            header=self.header,
            macs_per_row=self.macs_per_row,
            payload_bits=self.payload_bits,
        )


@dataclass(frozen=True)
class ClockSection:
    """How long a run lasts, how often it is evaluated, and whether the setup is on the clock.

    ``setup = "counted"`` puts encoding and upload of the coded data on the clock; ``"apart"``
    leaves them out, as the paper does, and reports them beside it. ``evaluate_every_s`` looks at
    the model by the clock instead of by rounds, so that short rounds are not looked at more often;
    ``evaluate_growth`` looks when there have been so much more rounds than at the last look.
    """

    rounds: int | None = None
    horizon_s: float | None = None
    evaluate_every: int = 10
    evaluate_every_s: float | None = None
    evaluate_growth: float | None = None
    setup: Literal["counted", "apart"] = "counted"
    coding: Literal["clients", "gram-shortcut"] = "clients"

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.that(
                self.rounds is not None or self.horizon_s is not None,
                "horizon_s",
                "is missing; say how long to train, in virtual seconds (horizon-s) or in rounds",
            )
            if self.rounds is not None:
                require.count("rounds", self.rounds, at_least=1)
            if self.horizon_s is not None:
                require.number("horizon_s", self.horizon_s, above=0)
            require.count("evaluate_every", self.evaluate_every, at_least=1)
            if self.evaluate_every_s is not None:
                require.number("evaluate_every_s", self.evaluate_every_s, above=0)
            if self.evaluate_growth is not None:
                require.number("evaluate_growth", self.evaluate_growth, above=0)
            require.choice("setup", self.setup, ("counted", "apart"))
            require.choice("coding", self.coding, ("clients", "gram-shortcut"))

    def describe(self) -> dict[str, Any]:
        """What identifies the clock; a growth that is not asked for is left out."""
        told = asdict(self)
        return {k: v for k, v in told.items() if k != "evaluate_growth" or v is not None}


@dataclass(frozen=True)
class ReportSection:
    """What the report compares by; without a target, 97% of the best final accuracy."""

    target_accuracy: float | None = None
    target_loss: float | None = None

    def __post_init__(self) -> None:
        with Requirements() as require:
            if self.target_accuracy is not None:
                require.number("target_accuracy", self.target_accuracy, above=0, at_most=1)
            if self.target_loss is not None:
                require.number("target_loss", self.target_loss, above=0)


@dataclass(frozen=True)
class SearchSection:
    """A search over learning rates, by the same rule for every method.

    Each rate is tried with each of ``seeds`` (the study's first by default) for as long as the
    study itself trains, and the one with the lowest mean training loss wins; a rate with which any
    of them diverged is out. Test data has no say.

    Where an end of the list wins, up to ``widen`` more rates are tried beyond it, one by one, each
    as far from the last as that end from its neighbour. Then the winner is refined so many times:
    the geometric means of it and both its neighbours are tried too.
    """

    learning_rates: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    widen: int = 0
    refine: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether more rates than those of the list may be tried."""
        return bool(self.widen or self.refine)

    def __post_init__(self) -> None:
        with Requirements() as require:
            for name in ("learning_rates", "seeds"):
                values = getattr(self, name)
                listed = isinstance(values, tuple) and len(set(values)) == len(values)
                require.that(listed, name, f"{values!r} is not a list of different numbers")
                for value in values if listed else ():
                    if name == "seeds":
                        require.count(name, value)
                    else:
                        require.number(name, value, above=0)
            for name in ("widen", "refine"):
                require.count(name, getattr(self, name))
                require.that(
                    not getattr(self, name) or bool(self.learning_rates),
                    name,
                    "needs rates to start from; give learning-rates",
                )
