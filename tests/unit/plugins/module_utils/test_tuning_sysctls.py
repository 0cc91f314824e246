# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import sysctls
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree


def tree(root: Path, files: dict[str, str]) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Tree(str(root))


def at_boot(root: Path, files: dict[str, str], name: str = "vm.swappiness") -> str | None:
    found = sysctls.effective(sysctls.assignments(tree(root, files)), sysctls.key_path(name))
    return found.value if found else None


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("vm.swappiness", "vm/swappiness"),
        ("vm/swappiness", "vm/swappiness"),
        ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
    ],
)
def test_names_and_paths(name, path):
    assert sysctls.key_path(name) == path


def test_last_name_wins_whatever_folder(tmp_path):
    files = {"usr/lib/sysctl.d/90-a.conf": "vm.swappiness=1\n", "etc/sysctl.d/80-b.conf": "vm.swappiness = 2\n"}
    assert at_boot(tmp_path, files) == "1"


def test_a_file_hides_that_of_the_same_name(tmp_path):
    files = {"usr/lib/sysctl.d/90-a.conf": "vm.swappiness=1\n", "etc/sysctl.d/90-a.conf": "# nothing\n"}
    assert at_boot(tmp_path, files) is None


def test_main_file_is_last_and_counts_once(tmp_path):
    files = {"etc/sysctl.d/99-z.conf": "vm.swappiness=1\n", "etc/sysctl.conf": "vm/swappiness=3\n"}
    assert at_boot(tmp_path, files) == "3"
    (tmp_path / "etc/sysctl.d/10-link.conf").symlink_to("../sysctl.conf")
    assert at_boot(tmp_path, {}) == "1"


def test_comments_and_words_of_the_format(tmp_path):
    text = "; vm.swappiness=1\n# vm.swappiness=2\n\n -vm.swappiness = 7 \nnonsense\nkernel.core_pattern=a = b\n"
    assert at_boot(tmp_path, {"etc/sysctl.d/1.conf": text, "etc/sysctl.d/2.txt": "vm.swappiness=9"}) == "7"
    assert at_boot(tmp_path, {}, "kernel.core_pattern") == "a = b"


def test_full_name_beats_pattern_and_may_take_itself_out(tmp_path):
    name = "net.ipv4.conf.eth0.rp_filter"
    pattern = "net.ipv4.conf.*.rp_filter = 2\n"
    assert at_boot(tmp_path, {"etc/sysctl.d/50.conf": pattern}, name) == "2"
    assert at_boot(tmp_path, {"etc/sysctl.d/40.conf": f"{name}=1\n"}, name) == "1"
    assert at_boot(tmp_path, {"etc/sysctl.d/40.conf": f"-{name}\n"}, name) is None


def test_where_is_told(tmp_path):
    rows = sysctls.assignments(tree(tmp_path, {"etc/sysctl.d/50.conf": "\nvm.swappiness=1\n"}))
    assert rows[0].where == "/etc/sysctl.d/50.conf line 2"
