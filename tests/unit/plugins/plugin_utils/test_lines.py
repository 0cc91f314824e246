# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.lines import line_map

TEXT = """\
---
name: lab
hosts:
  p1.example: {address: 192.0.2.11}
prefill:
  - name: p1
    args:
      - --seed
      - 1
"""


def test_every_key_and_item_has_its_line():
    lines, twice = line_map(TEXT)
    assert lines == {
        "name": 2,
        "hosts": 3,
        "hosts.p1.example": 4,
        "hosts.p1.example.address": 4,
        "prefill": 5,
        "prefill[0]": 6,
        "prefill[0].name": 6,
        "prefill[0].args": 7,
        "prefill[0].args[0]": 8,
        "prefill[0].args[1]": 9,
    }
    assert twice == []


def test_a_key_written_twice_is_named():
    assert line_map("hosts:\n  p1: {a: 1}\n  p1: {a: 2}\n")[1] == ["hosts.p1"]


def test_vault_values_and_loops_of_aliases_do_no_harm():
    lines, _twice = line_map("a: &a\n  b: !vault |\n    $ANSIBLE_VAULT;1.1;AES256\n  c: *a\n")
    assert lines["a.b"] == 2


def test_what_is_no_yaml_has_no_lines():
    assert line_map("a: [1\nb: {") == ({}, [])
    assert line_map("") == ({}, [])
