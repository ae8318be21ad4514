"""Ctrl-C while the package is still being imported."""

from __future__ import annotations

import subprocess
import sys

# The command with something in the way of the first import that takes long.
INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

# Whoever starts tests in the background may have had them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from scfl_command import main
main()
"""


def test_it_ends_the_command_without_a_word() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stdout == done.stderr == b""
