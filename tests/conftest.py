"""Settings of every test: BLAS on one thread, Hypothesis without deadlines and without luck.

`HYPOTHESIS_PROFILE=explore pytest` looks for new counterexamples; the default profile tries the
same examples every time, so a commit is never red by chance.
"""

from __future__ import annotations

import os

# Before NumPy is imported, and inherited by the processes that tests start.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    # A busy machine is slow at drawing too, which says nothing about the code.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# For a BLAS that a plugin loaded before this file was read.
threadpool_limits(1, "blas")
