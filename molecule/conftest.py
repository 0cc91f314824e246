# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of several scenarios share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "shared"))

from twin_hosts import Scenario


@pytest.fixture(scope="module")
def scenario(request):
    """The hosts of the scenario whose tests these are."""
    return Scenario(request.path.parents[1].name)
