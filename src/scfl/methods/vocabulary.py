"""The parameters that methods share: one name means one thing, with one range, in all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from scfl.core.coding import Noise
from scfl.core.parameter import Requirements
from scfl.methods.batches import Batches
from scfl.methods.protocol import Method
from scfl.methods.schedule import StepDecay, TheoremOne

Check = Callable[[Requirements, str, Any], None]


def check_parameters(method: Method) -> None:
    """Check every parameter whose name is in the vocabulary; report all that are wrong at once."""
    with Requirements() as require:
        for field in fields(method):
            if field.name in VOCABULARY:
                VOCABULARY[field.name](require, field.name, getattr(method, field.name))


def _number(**bounds: float) -> Check:
    return lambda require, name, value: require.number(name, value, **bounds)


def _count(require: Requirements, name: str, value: Any) -> None:
    require.count(name, value, at_least=1)


def _choice(*choices: str) -> Check:
    return lambda require, name, value: require.choice(name, value, choices)


def _flag(require: Requirements, name: str, value: Any) -> None:
    require.that(isinstance(value, bool), name, f"{value!r} is not allowed; give true or false")


def _unless(kinds: type | tuple[type, ...], check: Check) -> Check:
    """Objects of these kinds have checked themselves."""

    def checked(require: Requirements, name: str, value: Any) -> None:
        if not isinstance(value, kinds):
            check(require, name, value)

    return checked


def _make_up(require: Requirements, name: str, value: Any) -> None:
    sound = isinstance(value, bool) or value == "safe"
    require.that(sound, name, f"{value!r} is not allowed; give true, false or 'safe'")


def _rows_by(require: Requirements, name: str, value: Any) -> None:
    if not isinstance(value, tuple):
        require.choice(name, value, ("equal", "size"))
        return
    for weight in value:
        require.number(name, weight, above=0)


def _batches(require: Requirements, name: str, value: Any) -> None:
    require.that(isinstance(value, Batches), name, f"{value!r} is not a Batches object")


_optional = partial(_unless, type(None))

VOCABULARY: dict[str, Check] = {
    "learning_rate": _unless((StepDecay, TheoremOne), _number(above=0)),
    "batches": _batches,
    "redundancy": _optional(_number(at_least=0, below=1)),
    "coded_rows": _optional(_count),
    "server_rows": _optional(_count),
    "deadline_s": _optional(_number(above=0)),
    "noise": _unless(Noise, _number(at_least=0)),
    "layout": _choice("summed", "stacked"),
    "rows_by": _rows_by,
    "make_up": _make_up,
    "exclude_unreachable": _flag,
    "momentum": _number(at_least=0, below=1),
    "drop_fraction": _number(at_least=0, below=1),
    "learned": _choice("average", "last"),
}
