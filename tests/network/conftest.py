"""These tests start Flower itself: `make test-network` asks for them, by this variable."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("SCFL_TEST_NETWORK") else ["test_*.py"]
