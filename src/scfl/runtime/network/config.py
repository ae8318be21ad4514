"""The configuration of a training on a network, in the same words as a study's.

Flower hands a run's configuration over as flat keys (``method.learning-rate``); tables are made of
them again, and go through the same dataclasses as everything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from scfl.core.parameter import Requirements, build, suggest
from scfl.data.features import RandomFourier
from scfl.errors import ConfigError, ParameterError, Problem
from scfl.methods.budget import check_budget
from scfl.methods.protocol import Method
from scfl.methods.registry import find_method
from scfl.privacy.budget import Budget
from scfl.runtime.network.allowance import Limit, list_protection
from scfl.runtime.network.terms import Terms

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,39}")
Scalar = str | int | float | bool


@dataclass(frozen=True)
class NetworkSection:
    """Who takes part, over which lane, for how long; ``out`` is a folder on the server's machine.

    ``listen`` is where the stream lane waits for clients and ``reach`` the address under which they
    find it (the same, if it is left out). ``test_data`` is a file of the server's own to measure
    models on, with its ``target`` column. What was stopped goes on where it was. Trainings
    with different ``label`` s share a folder, and its report compares them. After
    ``most_gradients`` rounds clients are asked no more, and never for the gradient with which
    somebody's epsilon would exceed ``most_epsilon``: budgets for what they release. With
    authentication, nodes are ``registered``, and nobody else may speak under a client's name.
    """

    out: str
    clients: int
    rounds: int
    label: str | None = None
    least: int | None = None
    lane: Literal["stream", "messages"] = "stream"
    listen: str = "127.0.0.1:0"
    reach: str | None = None
    seed: int = 0
    task: Literal["auto", "classification", "regression"] = "auto"
    intercept: bool = False
    dtype: Literal["float32", "float64"] = "float32"
    test_data: str | None = None
    target: str = "target"
    learn_arrivals: bool = True
    enrol_s: float = 120.0
    setup_s: float = 600.0
    patience_s: float = 120.0
    evaluate_every: int = 10
    checkpoint_every: int = 20
    erasure: float = 0.1
    most_gradients: int | None = None
    most_epsilon: float | None = None
    registered: bool = False

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.that(bool(self.out), "out", "is empty; name a folder on the server's machine")
            if self.most_gradients is not None:
                require.count("most_gradients", self.most_gradients, at_least=1)
            if self.most_epsilon is not None:
                require.number("most_epsilon", self.most_epsilon, above=0)
            require.that(
                self.label is None or _LABEL.fullmatch(self.label) is not None,
                "label",
                f"{self.label!r} is no label; give letters, digits, dots and dashes",
            )
            require.choice("lane", self.lane, ("stream", "messages"))
            require.choice("task", self.task, ("auto", "classification", "regression"))
            require.that(
                self.listen.rpartition(":")[2].isdigit(),
                "listen",
                f"{self.listen!r} is no address; give host:port, with port 0 for any",
            )


@dataclass(frozen=True)
class NetworkConfig:
    """A checked configuration."""

    network: NetworkSection
    method: Method
    features: RandomFourier | None = None
    privacy: Budget = field(default_factory=Budget)

    @property
    def terms(self) -> Terms:
        """What the session needs of it."""
        section = self.network
        shared = {field.name for field in fields(Terms)} & {f.name for f in fields(section)}
        return Terms(
            method=self.method,
            probes=3 if section.lane == "stream" else 1,
            preparation={
                "task": section.task,
                "features": None if self.features is None else _plain(self.features),
                "intercept": section.intercept,
                "dtype": section.dtype,
                **list_protection(self.privacy),
            },
            budget=self.privacy,
            **{name: getattr(section, name) for name in shared},
        )

    @property
    def out(self) -> Path:
        return Path(self.network.out).expanduser()

    @property
    def limit(self) -> Limit:
        """Why no client may be asked for more, asked before each round."""
        section = self.network
        return Limit(self.privacy, section.most_gradients, section.most_epsilon)

    @property
    def label(self) -> str:
        """What the report calls this training."""
        return self.network.label or self.method.name

    @property
    def state(self) -> Path:
        """Where uploads and the checkpoint are."""
        return self.out / "state" / self.label


def _plain(features: RandomFourier) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in asdict(features).items()}


def check_network(tables: Mapping[str, Any]) -> NetworkConfig:
    """Turn tables into a configuration, or raise one error that lists every problem."""
    known = ("network", "method", "features", "privacy")
    problems = [
        Problem(key, f"there is no such table; {suggest(key, known)}")
        for key in tables
        if key not in known
    ]
    made: dict[str, Any] = {}
    for key in known:
        table = tables.get(key)
        if key in {"features", "privacy"} and table is None:
            continue
        try:
            made[key] = _build(key, {} if table is None else table)
        except ParameterError as error:
            problems += [problem.within(key) for problem in error.problems]
    if not problems:
        config = NetworkConfig(**made)
        problems = _check_privacy(config, tables)
    if not problems:
        try:
            _ = config.terms
        except ParameterError as error:
            problems = [
                Problem(issue.where.replace("_", "-"), issue.sentence).within("network")
                for issue in error.problems
            ]
        else:
            return config
    raise ConfigError(problems)


def _check_privacy(config: NetworkConfig, tables: Mapping[str, Any]) -> list[Problem]:
    """Whether the budget, the method and the limit go together."""
    name, budget = config.method.name, config.privacy
    problems = [
        replace(problem, where=problem.where.replace(f"methods.{name}", "method"))
        for problem in check_budget(
            budget, {"methods": {name: tables["method"]}}, {name: config.method}
        )
    ]
    if config.network.most_epsilon is not None and budget.delta is None:
        problems.append(
            Problem(
                "network.most-epsilon",
                "holds at some delta, for rows of some norm; give [privacy] delta and row-norm",
            )
        )
    return problems


def _build(key: str, table: Any) -> Any:
    if not isinstance(table, Mapping):
        raise ParameterError(f"{table!r} is a value; write a table [{key}]")
    if key == "network":
        return build(NetworkSection, table)
    if key in {"features", "privacy"}:
        return build(RandomFourier if key == "features" else Budget, table)
    if "name" not in table:
        raise ParameterError(
            [Problem("name", "is missing; name the method, such as name = 'scfl'")]
        )
    own = {name: value for name, value in table.items() if name != "name"}
    return build(find_method(str(table["name"])), own)


def nest(flat: Mapping[str, Scalar]) -> dict[str, Any]:
    """Tables again from the keys that Flower flattened."""
    tables: dict[str, Any] = {}
    for path, value in flat.items():
        *owners, name = path.split(".")
        table = tables
        for owner in owners:
            table = table.setdefault(owner, {})
        table[name] = value
    return tables
