"""Which method for which fleet: one sentence, with its reason and the measurement behind it.

The rules are those of docs/which-method.md, in order; the first that applies speaks. How long codes
and rounds take is computed for the fleet; what methods are worth is read from the experiments.
"""

from __future__ import annotations

from dataclasses import dataclass

from scfl.core.availability import Availability, Departures, Diurnal, Independent, Outages
from scfl.core.coding import as_noise
from scfl.core.fleet import Fleet, Shape
from scfl.core.parameter import Requirements
from scfl.experiments.side_by_side import ROUNDS, read_number
from scfl.methods.batches import Batches
from scfl.methods.fl_ipw import FLIPW
from scfl.methods.one_shot import OneShot
from scfl.methods.protocol import Deadline, Method
from scfl.methods.resilient import Resilient
from scfl.runtime.encoding import price_setup
from scfl.runtime.simulator import server_seconds
from scfl.study.config import StudyConfig
from scfl.study.plan import shape_of
from scfl.study.wording import format_seconds, format_share

# Where rounds with a code as preconditioner are compared with rounds without one.
_RACE = "speed-mnist"
# Noise in units of the mean eigenvalue of X^T X with rows of norm 1: beyond it codes say little.
_LOUD = 10.0
_MOMENTUM = "fl-ipw with momentum"


@dataclass(frozen=True)
class Advice:
    """The method to try first, why, and what that rests on."""

    method: str
    reason: str
    evidence: str

    @property
    def sentence(self) -> str:
        return f"Try {self.method}: {self.reason} ({self.evidence})."


def advise(study: StudyConfig, *, losing: float | None = None, seed: int | None = None) -> Advice:
    """Recommend a method for a study's problem, fleet, noise and clock.

    ``losing`` is the share of clients that will be gone at any time; without it, what the
    study's availability says.
    """
    with Requirements() as require:
        if losing is not None:
            require.number("losing", losing, at_least=0, below=1)
    shape = shape_of(study)
    fleet = study.fleet.draw(shape.clients, study.seeds[0] if seed is None else seed)
    lost = expected_loss(study.availability) if losing is None else losing
    return _choose(study, shape, fleet, lost)


def expected_loss(law: Availability) -> float:
    """The share of clients that are gone at a time, as far as a law says so."""
    if isinstance(law, Departures):
        return law.share
    if isinstance(law, Independent):
        return 1 - law.probability
    if isinstance(law, Outages):
        return law.mean_down_s / (law.mean_up_s + law.mean_down_s)
    return 1 - law.up_share if isinstance(law, Diurnal) else 0.0


def _choose(study: StudyConfig, shape: Shape, fleet: Fleet, lost: float) -> Advice:
    batches, noise = _settings(study)
    coded = Resilient(batches=batches, noise=noise)
    setup_s, round_s = _price(coded, shape, fleet)
    _, plain_s = _price(FLIPW(batches=batches), shape, fleet)
    private = study.privacy.calibrates or noise > 0
    once_s = price_setup(OneShot().plan(shape, fleet), fleet).seconds
    with_code, without = _count_rounds("curvature"), _count_rounds("fl-ipw(momentum)")
    with_code_s, without_s = setup_s + with_code * round_s, without * plain_s
    if not private and once_s <= min(with_code_s, without_s):
        return Advice(
            "one-shot",
            f"everybody can send exact sums of products once in {format_seconds(once_s)}, before "
            "rounds would be through, and nothing asks for noise",
            f"a code and {with_code} rounds take {format_seconds(with_code_s)} here, "
            f"{without} rounds with momentum {format_seconds(without_s)}",
        )
    horizon = study.clock.horizon_s
    if study.clock.setup == "counted" and horizon is not None and with_code_s > horizon:
        regret = f"; who leaves ({format_share(lost)}) takes along what only they knew"
        return Advice(
            _MOMENTUM,
            f"codes take {format_seconds(setup_s)} to make and send, and the study ends after "
            f"{format_seconds(horizon)}" + (regret if lost else ""),
            _quote(_RACE, "accuracy", "fl-ipw(momentum)", "fl-ipw", "scfl"),
        )
    if lost:
        return Advice(
            "resilient",
            f"{format_share(lost)} of the clients are expected to be gone, and it predicts them "
            "from their codes and last answers, so that nothing learned is undone",
            _quote("departures-digits", "accuracy", "resilient", "scfl", "fl-ipw(momentum)"),
        )
    loudness = shape.clients * noise**2 / (shape.rows / shape.features)
    if loudness >= _LOUD:
        return Advice(
            _MOMENTUM,
            f"with n sigma^2 at {loudness:.0f} times the mean curvature of rows of norm 1, codes "
            "have little to say, and without them nothing is released but gradients",
            _quote("loud-digits", "loss", "fl-ipw(momentum)", "curvature", "scfl"),
        )
    if study.clock.setup == "counted" and with_code_s > without_s:
        return Advice(
            _MOMENTUM,
            f"{without} rounds without codes take {format_seconds(without_s)}, making and "
            f"sending codes alone {format_seconds(setup_s)}, and nobody is expected to leave",
            _quote(_RACE, ROUNDS, "fl-ipw(momentum)", "curvature"),
        )
    return Advice(
        "curvature",
        f"{with_code} rounds with the code as preconditioner take "
        f"{format_seconds(with_code_s)}, {without} without it {format_seconds(without_s)}, "
        "and nobody is expected to leave",
        _quote(_RACE, ROUNDS, "curvature", "fl-ipw(momentum)", "scfl"),
    )


def _quote(name: str, score: str, *labels: str) -> str:
    """What an experiment that ships with scfl came to, for some of its methods."""
    values = [read_number(name, score, label) for label in labels]
    said = [f"{label} {_say(value)}" for label, value in zip(labels, values, strict=True)]
    return f"{score} in {name}: {', '.join(said)}"


def _count_rounds(label: str) -> int:
    """Rounds until a model is as good as the one that SCFL ends with."""
    return round(read_number(_RACE, ROUNDS, label) or 0)


def _say(value: float | None) -> str:
    return "never" if value is None else f"{value:.4g}"


def _settings(study: StudyConfig) -> tuple[Batches, float]:
    """The batches of the study's first method that has some, and the most noise of any."""
    methods = list(study.methods.values())
    batches = next((m.batches for m in methods if hasattr(m, "batches")), Batches())
    noises = [as_noise(m.noise).sigma for m in methods if hasattr(m, "noise")]
    return batches, max(noises, default=0.0)


def _price(method: Method, shape: Shape, fleet: Fleet) -> tuple[float, float]:
    """Seconds of setup, and of a round."""
    plan = method.plan(shape, fleet)
    assert isinstance(plan.wait, Deadline)
    beside_s, after_s = server_seconds(plan, fleet)
    return price_setup(plan, fleet).seconds, max(plan.wait.seconds, beside_s) + after_s
