"""A worker whose study was killed comes to an end by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

WORKER = (
    "import os, sys, time; from scfl.study.orphan import stop_without;"
    "stop_without({parent}); stop_without({parent});"
    "print('works', flush=True); time.sleep(60); print('went on', flush=True)"
)
STUDY = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {0!r}]); time.sleep(60)"
)


def read_to_the_end(parent: str) -> str:
    """Start a process that starts a worker, kill the first, and read what the second says."""
    study = subprocess.Popen(
        [sys.executable, "-c", STUDY.format(WORKER.format(parent=parent))],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert study.stdout is not None
    try:
        first = study.stdout.readline()
        os.kill(study.pid, signal.SIGKILL)
        with ThreadPoolExecutor(1) as reader:
            rest = reader.submit(study.stdout.read)
            try:
                return first + rest.result(timeout=20 if parent == "os.getppid()" else 3)
            except TimeoutError:
                os.killpg(study.pid, signal.SIGKILL)
                raise
    finally:
        study.wait()
        study.stdout.close()


def test_a_worker_ends_soon_after_its_study() -> None:
    assert read_to_the_end("os.getppid()") == "works\n"


def test_who_was_started_by_somebody_else_is_left_alone() -> None:
    with pytest.raises(TimeoutError):
        read_to_the_end("os.getppid() + 1")
