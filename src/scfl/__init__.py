"""Federated linear models on machines that are slow, flaky or gone."""

from importlib.metadata import version

from scfl.core.availability import (
    Always,
    Departures,
    Diurnal,
    Independent,
    LateJoiners,
    Outages,
    Trace,
)
from scfl.core.coding import Noise
from scfl.core.delay import ShiftedExponential, WirelessEdge
from scfl.core.fleet import Fleet, Shape, wireless_edge
from scfl.data.features import RandomFourier
from scfl.data.partition import Dirichlet, Iid, LabelSorted, SizeSkewed
from scfl.data.problem import Problem, make_problem
from scfl.data.row_norm import bound_rows
from scfl.data.scaling import Scaling
from scfl.errors import ScflError
from scfl.methods.adaptive_scfl import AdaptiveSCFL
from scfl.methods.batches import Batches
from scfl.methods.cfl_fb import CFLFB
from scfl.methods.codedfedl import CodedFedL
from scfl.methods.curvature import Curvature
from scfl.methods.doubly_robust import DoublyRobust
from scfl.methods.dp_cfl import DPCFL
from scfl.methods.fl_ipw import FLIPW
from scfl.methods.fl_pma import FLPMA, FedAvg
from scfl.methods.one_shot import OneShot
from scfl.methods.registry import find_method, known_methods, register
from scfl.methods.resilient import Resilient
from scfl.methods.scfl import SCFL
from scfl.methods.schedule import StepDecay, TheoremOne
from scfl.methods.stand_in import StandIn
from scfl.privacy.budget import Budget, GradientNoise
from scfl.runtime.calibration import calibrate
from scfl.runtime.result import Result
from scfl.runtime.simulator import simulate
from scfl.runtime.stability import InstabilityWarning

__version__ = version("scfl")

__all__ = [
    "CFLFB",
    "DPCFL",
    "FLIPW",
    "FLPMA",
    "SCFL",
    "AdaptiveSCFL",
    "Always",
    "Batches",
    "Budget",
    "CodedFedL",
    "Curvature",
    "Departures",
    "Dirichlet",
    "Diurnal",
    "DoublyRobust",
    "FedAvg",
    "Fleet",
    "GradientNoise",
    "Iid",
    "Independent",
    "InstabilityWarning",
    "LabelSorted",
    "LateJoiners",
    "Noise",
    "OneShot",
    "Outages",
    "Problem",
    "RandomFourier",
    "Resilient",
    "Result",
    "Scaling",
    "ScflError",
    "Shape",
    "ShiftedExponential",
    "SizeSkewed",
    "StandIn",
    "StepDecay",
    "TheoremOne",
    "Trace",
    "WirelessEdge",
    "bound_rows",
    "calibrate",
    "find_method",
    "known_methods",
    "make_problem",
    "register",
    "simulate",
    "wireless_edge",
]
