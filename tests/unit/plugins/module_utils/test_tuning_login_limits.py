# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import login_limits

from .tuning_tree import Kernel


def limit(item="memlock", value="unlimited", domain="mooncake", type_="-"):
    return {"domain": domain, "type": type_, "item": item, "value": value}


def test_text():
    assert login_limits.text([limit(), limit("nofile", "4096", "*", "soft")], "# ours") == (
        "# ours\n# for logins; units take Limit...= of their own\nmooncake - memlock unlimited\n* soft nofile 4096\n"
    )
    assert login_limits.text([], "# ours") is None


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (limit("ram"), "none of"),
        (limit(value="lots"), "no number"),
        (limit(domain="two words"), "no user"),
        (limit("nofile", "2000000"), "cannot log in"),
        (limit("nofile", "unlimited"), "cannot log in"),
    ],
)
def test_what_cannot_be(bad, word):
    (problem,) = login_limits.problems([bad], 1048576)
    assert word in problem


def test_what_can_be():
    assert login_limits.problems([limit(), limit("nofile", "1048576"), limit("nice", "-5")], 1048576) == []


@pytest.mark.parametrize(
    ("given", "reachable"),
    [
        (limit(), False),
        (limit(value="8192"), True),
        (limit(value="8193"), False),
        (limit("nofile", "20001"), False),
        (limit("nproc"), True),  # process 1 does not tell
        (limit("maxlogins", "4"), True),
    ],
)
def test_what_process_1_may_not_have_nobody_gets(tmp_path, given, reachable):
    host = Kernel(tmp_path)
    assert (login_limits.out_of_reach(host, given, may_raise=False) is None) is reachable
    assert login_limits.out_of_reach(host, given, may_raise=True) is None


def test_later_files_that_say_otherwise(tmp_path):
    host = Kernel(tmp_path)
    host.file("/etc/security/limits.d/95-site.conf", "mooncake hard memlock 64 # small\nother - memlock 1\n")
    host.file("/etc/security/limits.d/10-early.conf", "mooncake - memlock 64\n")
    assert login_limits.overridden(host, [limit()]) == [
        "/etc/security/limits.d/95-site.conf is read later and says mooncake hard memlock 64"
    ]
    assert login_limits.overridden(host, [limit(value="64")]) == []
