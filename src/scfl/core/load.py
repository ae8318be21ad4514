"""How many rows to ask of a client: the load whose expected return within a deadline is largest.

A client with load l returns l rows if it is here within t and none otherwise, so on average it
returns R(l) = l P(T(l) <= t): a small load wastes the machine, a large one misses the deadline.
Both laws leave finitely many places to look, so the maximiser is exact, no grid over loads:
``load_wireless`` and ``load_exponential`` say which places, and why no other can be better.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scfl.core.delay import DelayLaw, ShiftedExponential, WirelessEdge
from scfl.core.load_exponential import maximise_exponential
from scfl.core.load_wireless import maximise_wireless
from scfl.core.pace import Pace
from scfl.errors import ParameterError, Problem

Floats = NDArray[np.float64]


def maximise_return(
    law: DelayLaw, pace: Pace, seconds: float, caps: Floats, *, whole: bool = True
) -> Floats:
    """Return the loads, at most ``caps``, that return most rows on average within ``seconds``.

    ``whole`` asks for whole loads (then caps must be whole too). A client that cannot return
    anything in time gets 0.
    """
    if isinstance(law, WirelessEdge):
        return maximise_wireless(law, pace, seconds, caps, whole=whole)
    if isinstance(law, ShiftedExponential):
        return maximise_exponential(law, pace, seconds, caps, whole=whole)
    sentence = (
        f"no best load is known for {type(law).__name__}; "
        "choose from ShiftedExponential, WirelessEdge"
    )
    raise ParameterError([Problem("law", sentence)])
