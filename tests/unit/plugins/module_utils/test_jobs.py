# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Job, Late, in_parallel


def test_job_in_time_and_late() -> None:
    job = Job(lambda: 5)
    assert job.result(time.monotonic() + 5) == 5
    with pytest.raises(Late):
        Job(lambda: time.sleep(2)).result(time.monotonic() + 0.05)
    with pytest.raises(ZeroDivisionError):
        Job(lambda: 1 // 0).result(time.monotonic() + 5)


def test_a_job_that_hangs_does_not_keep_the_module_alive() -> None:
    code = f"import time; from {Job.__module__} import Job; Job(lambda: time.sleep(30))"
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert time.monotonic() - begun < 20


def test_in_parallel_keeps_the_order_and_waits_for_nobody() -> None:
    begun = time.monotonic()
    first, late, wrong, never = in_parallel(
        [lambda: 1, lambda: time.sleep(30), lambda: 1 // 0, lambda: time.sleep(30)], 2, 0.2
    )
    assert time.monotonic() - begun < 20
    assert first == 1
    assert isinstance(late, Late)
    assert isinstance(wrong, ZeroDivisionError)
    assert isinstance(never, Late)
