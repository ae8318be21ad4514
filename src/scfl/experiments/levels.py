"""The studies that an experiment is made of: one, one per budget, or one per cell of a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from scfl.core.availability import Always, Departures
from scfl.core.parameter import Requirements
from scfl.errors import ConfigError, Problem
from scfl.methods.protocol import Method
from scfl.study.config import StudyConfig

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Currency = Literal["printed", "exact"]


@dataclass(frozen=True)
class FigureSection:
    """The ``[figure]`` table: what is drawn and tested.

    ``"curves"`` draws scores against virtual time: ``targets`` are the accuracies whose times are
    compared, and ``near`` is how far from the optimum's accuracy ``resilient`` is claimed to end
    at most. ``"budget"`` draws them against the privacy budget, after a run without noise: of
    ``mi_bits``, in printed bits, or of ``epsilons``, guarantees for single rows. ``"grid"`` runs
    every combination of the ``shares`` of clients that leave, the ``noises``, and the coded
    ``rows``.
    """

    kind: Literal["curves", "budget", "grid"] = "curves"
    title: str = ""
    targets: tuple[float, ...] = ()
    near: float = 0.010
    mi_bits: tuple[float, ...] = ()
    epsilons: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    noises: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.choice("kind", self.kind, ("curves", "budget", "grid"))
            require.number("near", self.near, above=0, at_most=1)
            lists = ("targets", "mi_bits", "epsilons", "shares", "noises", "rows")
            listed = {name: isinstance(getattr(self, name), tuple) for name in lists}
            for name, is_list in listed.items():
                require.that(is_list, name, f"{getattr(self, name)!r} is not a list of numbers")
            for target in self.targets if listed["targets"] else ():
                require.number("targets", target, above=0, at_most=1)
            for name in ("mi_bits", "epsilons"):
                for budget in getattr(self, name) if listed[name] else ():
                    require.number(name, budget, above=0)
            for share in self.shares if listed["shares"] else ():
                require.number("shares", share, at_least=0, below=1)
            for noise in self.noises if listed["noises"] else ():
                require.number("noises", noise, at_least=0)
            for count in self.rows if listed["rows"] else ():
                require.count("rows", count, at_least=1)
            require.that(
                not (self.mi_bits and self.epsilons),
                "epsilons",
                "are guarantees, and mi-bits are the paper's budgets; leave one of them out",
            )
            needed = {
                "curves": ("targets",),
                "budget": ("epsilons",) if self.epsilons else ("mi_bits",),
                "grid": ("shares", "noises", "rows"),
            }
            for name in needed.get(self.kind, ()):
                require.that(
                    bool(getattr(self, name)) or not listed[name],
                    name,
                    f"is empty; a figure of kind {self.kind!r} needs at least one",
                )

    @property
    def currency(self) -> Currency:
        """What budgets are counted in."""
        return "exact" if self.epsilons else "printed"


@dataclass(frozen=True)
class Cell:
    """Where in a grid a study is; methods without coded data know no noise and no rows."""

    share: float
    noise: float | None = None
    rows: int | None = None

    def __str__(self) -> str:
        code = "" if self.rows is None else f", noise {self.noise:g}, {self.rows:,} coded rows"
        return (f"{self.share:.0%} leave" if self.share else "nobody leaves") + code


# A budget, a cell, or None for the study without noise.
Key = float | Cell | None


@dataclass(frozen=True)
class Level:
    """One study of an experiment, and where it stands among the others."""

    name: str
    key: Key
    study: StudyConfig


def name_level(key: Key, currency: Currency) -> str:
    """A level in words."""
    if key is None:
        return "no noise"
    if isinstance(key, Cell):
        return str(key)
    return f"{key:g} bits" if currency == "printed" else f"epsilon {key:g}"


def spread_levels(study: StudyConfig, figure: FigureSection) -> tuple[Level, ...]:
    """An experiment's studies, in the order drawn."""
    if figure.kind == "curves":
        return (Level("no-noise", None, study),)
    coded = {label: method for label, method in study.methods.items() if hasattr(method, "noise")}
    if not coded:
        raise ConfigError([Problem("methods", "name one that releases coded data, such as scfl")])
    if figure.kind == "grid":
        return _spread_cells(study, figure, coded)
    levels = [Level("no-noise", None, study)]
    for bits in sorted(figure.mi_bits, reverse=True):
        privacy = replace(study.privacy, mi_bits=bits)
        levels.append(Level(f"{bits:g}-bits", bits, replace(study, methods=coded, privacy=privacy)))
    for epsilon in sorted(figure.epsilons, reverse=True):
        privacy = replace(study.privacy, epsilon=epsilon)
        at_budget = replace(study, methods=coded, privacy=privacy)
        levels.append(Level(f"epsilon-{epsilon:g}", epsilon, at_budget))
    return tuple(levels)


def _spread_cells(
    study: StudyConfig, figure: FigureSection, coded: dict[str, Method]
) -> tuple[Level, ...]:
    """For each share of clients that leave, everybody without codes once, then cell by cell."""
    law = study.availability
    plain = {label: method for label, method in study.methods.items() if label not in coded}
    if not isinstance(law, Departures):
        raise ConfigError(
            [Problem("availability", "give kind = 'departures'; a grid varies the share")]
        )
    if not plain:
        raise ConfigError([Problem("methods", "name one without coded data, such as fl-ipw")])
    levels = []
    for share in figure.shares:
        there = replace(law, share=share) if share > 0 else Always()
        left = replace(study, availability=there)
        name = f"{share:g}-leave"
        levels.append(Level(name, Cell(share), replace(left, methods=plain)))
        for noise in figure.noises:
            for rows in figure.rows:
                methods = {label: _recode(method, noise, rows) for label, method in coded.items()}
                levels.append(
                    Level(
                        f"{name}-noise-{noise:g}-rows-{rows}",
                        Cell(share, noise, rows),
                        replace(left, methods=methods),
                    )
                )
    return tuple(levels)


def _recode(method: Method, noise: float, rows: int) -> Method:
    fields: dict[str, Any] = {"noise": noise, "coded_rows": rows}
    return cast(Method, replace(cast("DataclassInstance", method), **fields))
