"""The command ``scfl``, beside the package: importing that takes seconds, and may be interrupted.

Here Ctrl-C ends the command whenever it comes; in the package, the interpreter would be importing
it before a line of it could say so.
"""

import sys


def main() -> None:
    """Import the command line, then run it."""
    try:
        from scfl.cli import main as run  # noqa: PLC0415 - this is what may be interrupted
    except KeyboardInterrupt:
        sys.exit(130)
    run()
