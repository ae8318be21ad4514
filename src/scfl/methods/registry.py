"""The methods that a configuration can name."""

from __future__ import annotations

from collections.abc import Mapping

from scfl.core.parameter import suggest
from scfl.errors import ParameterError
from scfl.errors import Problem as Issue
from scfl.methods.adaptive_scfl import AdaptiveSCFL
from scfl.methods.cfl_fb import CFLFB
from scfl.methods.codedfedl import CodedFedL
from scfl.methods.curvature import Curvature
from scfl.methods.doubly_robust import DoublyRobust
from scfl.methods.dp_cfl import DPCFL
from scfl.methods.fl_ipw import FLIPW
from scfl.methods.fl_pma import FLPMA, FedAvg
from scfl.methods.one_shot import OneShot
from scfl.methods.protocol import Method
from scfl.methods.resilient import Resilient
from scfl.methods.scfl import SCFL
from scfl.methods.stand_in import StandIn

_METHODS: dict[str, type[Method]] = {
    kind.name: kind
    for kind in (
        SCFL,
        FedAvg,
        FLPMA,
        CFLFB,
        CodedFedL,
        DPCFL,
        FLIPW,
        OneShot,
        Curvature,
        AdaptiveSCFL,
        DoublyRobust,
        StandIn,
        Resilient,
    )
}


def register(kind: type[Method]) -> type[Method]:
    """Make a method of your own known by its ``name``; usable as a class decorator."""
    taken = _METHODS.get(kind.name)
    if taken is not None and taken is not kind:
        raise ParameterError(
            [Issue("name", f"{kind.name!r} is taken by {taken.__name__}; choose another")]
        )
    _METHODS[kind.name] = kind
    return kind


def known_methods() -> Mapping[str, type[Method]]:
    """All registered methods by name."""
    return dict(_METHODS)


def find_method(name: str) -> type[Method]:
    """The method of that name, or the nearest name in the error."""
    if name not in _METHODS:
        raise ParameterError([Issue("method", f"{name!r} is not known; {suggest(name, _METHODS)}")])
    return _METHODS[name]
