"""Named random streams: what is drawn depends on who asks for it, never on when.

A stream is identified by a seed, a purpose and up to three coordinates (client, round, ...), so
the same seed gives the same numbers whatever the order of calls or the number of workers, and two
methods that run with the same seed meet the same fleet, the same arrivals and the same batches.
"""

from __future__ import annotations

from enum import IntEnum, unique

import numpy as np


@unique
class Purpose(IntEnum):
    """What a stream is for. The numbers are part of every published result: never reuse one."""

    SPLIT = 1
    PARTITION = 2
    FEATURES = 3
    FLEET = 4
    CODE = 5
    NOISE = 6
    DELAYS = 7
    CLIENT_BATCHES = 8
    SERVER_BATCHES = 9
    SYNTHETIC = 10
    AVAILABILITY = 11
    AUDIT = 40
    GRADIENT_NOISE = 41


def stream(seed: int, purpose: Purpose, *coordinates: int) -> np.random.Generator:
    """Return the generator that belongs to ``(seed, purpose, *coordinates)``."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(purpose), *coordinates))
    return np.random.Generator(np.random.SFC64(sequence))
