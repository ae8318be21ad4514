"""What `import scfl` offers is a promise: a name comes or goes on purpose, and in the changelog."""

from __future__ import annotations

import inspect

import scfl

PUBLIC = """
    AdaptiveSCFL Always Batches Budget CFLFB CodedFedL Curvature DPCFL Departures Dirichlet Diurnal
    DoublyRobust FLIPW FLPMA FedAvg Fleet GradientNoise Iid Independent InstabilityWarning
    LabelSorted LateJoiners Noise OneShot Outages Problem RandomFourier Resilient Result SCFL
    Scaling ScflError Shape ShiftedExponential SizeSkewed StandIn StepDecay TheoremOne Trace
    WirelessEdge bound_rows calibrate find_method known_methods make_problem register simulate
    wireless_edge
"""


def test_the_public_names_are_these() -> None:
    changed = set(scfl.__all__) ^ set(PUBLIC.split())
    assert not changed, "on purpose? then list it above, and tell users in CHANGELOG.md"
    assert len(scfl.__all__) == len(set(scfl.__all__))


def test_every_public_name_says_what_it_is() -> None:
    for name in scfl.__all__:
        # A dataclass without words gets its signature for them.
        words = inspect.getdoc(getattr(scfl, name))
        assert words, name
        assert not words.startswith(f"{name}("), name
