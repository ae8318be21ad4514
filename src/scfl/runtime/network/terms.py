"""What a training on a network is to be: the method, for how long, and with how much patience."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from scfl.core.fleet import Fleet
from scfl.core.parameter import Requirements
from scfl.methods.protocol import Method
from scfl.privacy.budget import Budget


@dataclass(frozen=True)
class Terms:
    """Fixed before the first client comes.

    ``clients`` are waited for at most ``enrol_s``, then ``least`` will do; uploads get ``setup_s``.
    ``patience_s`` bounds every wait for people in a round that has no deadline, and how long
    training waits for anybody at all. ``preparation`` is what clients do to their rows before
    training: ``task``, ``features``, ``intercept``, ``dtype``. A ``fleet`` that is known, by the
    names of its clients, spares the calibration, and one of the ``probes`` does where each takes
    long. Where a ``budget`` asks for noise, the method's follows from it when the plan is made.
    Where nodes are ``registered``, a client's name stays with the node that brought it.
    """

    method: Method
    clients: int
    rounds: int
    least: int | None = None
    seed: int = 0
    preparation: Mapping[str, Any] = field(default_factory=dict)
    fleet: Fleet | None = None
    learn_arrivals: bool = True
    enrol_s: float = 60.0
    setup_s: float = 600.0
    patience_s: float = 60.0
    evaluate_every: int = 10
    checkpoint_every: int = 20
    dtype: Literal["float32", "float64"] = "float32"
    erasure: float = 0.1
    probes: Literal[1, 3] = 3
    budget: Budget = field(default_factory=Budget)
    registered: bool = False

    def __post_init__(self) -> None:
        with Requirements() as require:
            require.count("clients", self.clients, at_least=1)
            require.count("rounds", self.rounds, at_least=1)
            if self.least is not None:
                require.count("least", self.least, at_least=1, at_most=self.clients)
            require.count("seed", self.seed)
            for name in ("enrol_s", "setup_s", "patience_s"):
                require.number(name, getattr(self, name), above=0)
            for name in ("evaluate_every", "checkpoint_every"):
                require.count(name, getattr(self, name), at_least=1)
            require.choice("dtype", self.dtype, ("float32", "float64"))
            require.number("erasure", self.erasure, at_least=0, below=1)

    @property
    def enough(self) -> int:
        """With how many clients training starts when time is up."""
        return self.clients if self.least is None else self.least

    @property
    def fingerprint(self) -> str:
        """What a checkpoint has to share to be gone on with; more rounds are the same training."""
        parts = {
            "method": self.method.name,
            "parameters": asdict(self.method),
            "seed": self.seed,
            "dtype": self.dtype,
            "preparation": dict(self.preparation),
            "budget": asdict(self.budget),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
