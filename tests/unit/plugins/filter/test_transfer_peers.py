# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.mooncake.pd.plugins.filter.transfer_peers import FilterModule


def test_filter() -> None:
    peers = FilterModule().filters()["transfer_peers"]
    assert peers(["p1", "p2"], ["d1"], host="d1") == ["p1", "p2"]
    assert peers(["p1", "p2"], ["d1", "d2"], host="p2", pairs="sample") == ["d2"]
    with pytest.raises(AnsibleFilterError, match="all or sample"):
        peers(["p1"], ["d1"], host="d1", pairs="some")
