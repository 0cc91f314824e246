# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole of host_tuning on a host made of files: what is set, what comes back at boot, what is put back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import boot, login_limits, record, sysctls
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.work import Refused

from .tuning_tree import GIB, POOLS, Kernel

MAPS, SWAP = "/proc/sys/vm/max_map_count", "/proc/sys/vm/swappiness"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
NODES = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
EVERYTHING = {
    "sysctl": {"vm.max_map_count": {"at_least": 262144}, "vm.swappiness": 0, "net.ipv4.tcp_rmem": "4096 87380 8388608"},
    "reserved_ports": ["40000-40015", {"first": 8100, "last": 8100}],
    "hugepages": [{"size": "2MB", "pages": 512, "node": None}],
    "shm_size": "16G",
    "transparent_hugepages": "madvise",
    "governor": "performance",
    "limits": [{"domain": "mooncake", "type": "-", "item": "memlock", "value": "4096"}],
}


@pytest.fixture
def host(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def refused(host: Kernel, **params) -> list[str]:
    before = host.snapshot()
    with pytest.raises(Refused) as caught:
        host.tuning(**params)
    assert host.snapshot() == before
    return caught.value.problems


def test_everything_is_set_and_comes_back_at_boot(host):
    tuning = host.tune(**EVERYTHING)
    assert tuning.changed
    assert (tuning.errors, tuning.wishes.skipped, tuning.shortage()) == ([], [], None)
    assert [host.text(path).strip() for path in (MAPS, SWAP, RESERVED, f"{POOLS}/nr_hugepages")] == [
        "262144",
        "0",
        "40000-40015",  # 8100 is never a source port
        "512",
    ]
    assert "[madvise]" in host.text(THP)
    assert host.shm == 16 * GIB
    assert host.text(sysctls.FILE) == (
        "# Managed by mooncake.pd: changes by hand are lost\nvm.max_map_count = 262144\nvm.swappiness = 0\n"
        "net.ipv4.tcp_rmem = 4096 87380 8388608\nnet.ipv4.ip_local_reserved_ports = 40000-40015\n"
    )
    assert host.text(boot.TMPFILES).splitlines()[1:] == [
        f"w {POOLS}/nr_hugepages - - - - 512",
        f"w {THP} - - - - madvise",
        "w /sys/devices/system/cpu/cpufreq/policy*/scaling_governor - - - - performance",
    ]
    assert host.text("/etc/fstab").endswith("0 1\ntmpfs /dev/shm tmpfs nosuid,nodev,size=16G 0 0\n")
    assert "mooncake - memlock 4096" in host.text(login_limits.FILE)


def test_second_run_changes_nothing(host):
    host.tune(**EVERYTHING)
    before, writes = host.snapshot(), list(host.writes)
    again = host.tune(**EVERYTHING)
    assert not again.changed
    assert (host.snapshot(), host.writes, host.mounts) == (before, writes, 1)


def test_looking_writes_nothing_and_tells_the_same(host):
    before = host.snapshot()
    tuning = host.tuning(**EVERYTHING)
    assert tuning.changed
    diff = {entry["after_header"]: entry for entry in tuning.diff()}
    assert "vm.max_map_count = 65530\n" in diff["values of the kernel"]["before"]
    assert "vm.max_map_count = 262144\n" in diff["values of the kernel"]["after"]
    assert set(diff) >= {sysctls.FILE, boot.TMPFILES, login_limits.FILE, "/etc/fstab"}
    assert (host.snapshot(), host.writes, host.mounts) == (before, [], 0)


def test_absent_puts_everything_back(host):
    before = host.snapshot()
    host.tune(**EVERYTHING)
    tuning = host.tune(state="absent")
    assert tuning.changed
    assert tuning.kept == []
    after = host.snapshot()
    # the kernel has single spaces where tabs were; a real one prints tabs again
    assert {key: value.split() for key, value in after.items()} == {key: value.split() for key, value in before.items()}
    assert not host.tune(state="absent").changed


def test_what_is_no_longer_asked_for_is_put_back(host):
    host.tune(sysctl={"vm.swappiness": 0, "vm.max_map_count": 99999}, transparent_hugepages="never")
    tuning = host.tune(sysctl={"vm.swappiness": 0})
    assert sorted(tuning.restored) == ["transparent_hugepages", "vm.max_map_count"]
    assert host.text(MAPS).strip() == "65530"
    assert "[always]" in host.text(THP)
    assert host.text(SWAP).strip() == "0"
    assert not host.tune(sysctl={"vm.swappiness": 0}).changed


def test_what_somebody_else_changed_since_stays(host):
    host.tune(sysctl={"vm.swappiness": 0}, shm_size="16G")
    host.file(SWAP, "10\n")
    host.shm = 8 * GIB
    tuning = host.tune(state="absent")
    assert host.text(SWAP).strip() == "10"
    assert host.shm == 8 * GIB
    assert [entry["name"] for entry in tuning.kept] == ["vm.swappiness", "/dev/shm"]
    assert "somebody else" in tuning.kept[0]["why"]


def test_at_least_never_lowers(host):
    host.file(MAPS, "1000000\n")
    tuning = host.tune(sysctl={"vm.max_map_count": {"at_least": 262144}})
    assert host.writes == []
    # it may stand there by hand only, and is to be there after a reboot, too
    assert "vm.max_map_count = 1000000" in host.text(sysctls.FILE)
    assert tuning.changed
    host.file("/usr/lib/sysctl.d/50-maps.conf", "vm.max_map_count = 2000000\n")
    host.tune(sysctl={"vm.max_map_count": {"at_least": 262144}})
    assert not host.exists(sysctls.FILE)


def test_a_lower_wish_comes_back_to_what_stood_there(host):
    host.tune(sysctl={"vm.max_map_count": {"at_least": 500000}})
    host.tune(sysctl={"vm.max_map_count": {"at_least": 300000}})
    assert host.text(MAPS).strip() == "300000"


def test_ports_of_others_stay(host):
    host.file(RESERVED, "50000\n")
    host.file("/etc/sysctl.d/10-site.conf", "net.ipv4.ip_local_reserved_ports = 33000-33010\n")
    host.tune(reserved_ports=["40000-40001", "33005-33020"])
    assert host.text(RESERVED).strip() == "33000-33020,40000-40001,50000"
    host.tune(reserved_ports=["40001"])
    assert host.text(RESERVED).strip() == "33000-33010,40001,50000"
    host.tune(state="absent")
    assert host.text(RESERVED).strip() == "33000-33010,50000"


def test_a_file_that_is_read_later_is_a_problem_before_anything_changes(host):
    host.file("/etc/sysctl.d/99-site.conf", "vm.swappiness = 30\nvm.max_map_count = 70000\n")
    host.file("/etc/sysctl.conf", "net.ipv4.ip_local_reserved_ports=1\n")
    problems = refused(
        host,
        sysctl={"vm.swappiness": 0, "vm.max_map_count": {"at_least": 65000}},
        reserved_ports=["40000"],
    )
    assert problems == [
        f"vm.swappiness: /etc/sysctl.d/99-site.conf line 1 sets it to 30 after {sysctls.FILE} at boot, and 0 is wanted:"
        " change that line to `vm.swappiness = 0`, or take it away",
        f"net.ipv4.ip_local_reserved_ports: /etc/sysctl.conf line 1 sets it to 1 after {sysctls.FILE} at boot, and"
        " 1,40000 is wanted: change that line to `net.ipv4.ip_local_reserved_ports = 1,40000`, or take it away",
    ]


def test_a_file_that_is_read_later_may_ask_for_more(host):
    host.file("/etc/sysctl.d/99-site.conf", "vm.max_map_count = 70000\n")
    assert host.tune(sysctl={"vm.max_map_count": {"at_least": 65000}}).changed
    (problem,) = refused(host, sysctl={"vm.max_map_count": {"at_least": 80000}})
    assert "99-site.conf line 1 sets it to 70000" in problem


def test_all_problems_at_once(host):
    host.file(sysctls.FILE, "vm.swappiness=1\n")
    problems = refused(
        host,
        sysctl={
            "vm.nr_hugepages": 5,
            "vm.swappiness": {"at_most": 5},
            "vm.max_map_count": [1],
            "net.core.somaxconn": 1,
        },
        reserved_ports=["x"],
        hugepages=[{"size": "2MB", "pages": 1, "node": 7}, {"size": "1GB", "pages": 1, "node": None}],
        shm_size="much",
        governor="fast",
        limits=[{"domain": "*", "type": "-", "item": "nofile", "value": "unlimited"}],
    )
    text = "\n".join(problems)
    for part in (
        "vm.nr_hugepages is set by hugepages",
        "at_least",
        "[1] is no text",
        "'x' is no port",
        "the nodes 0, 1 only",
        "pages of 2MB only",
        "'much' is no size",
        "'fast' is none of performance, powersave",
        "cannot log in",
        "was not written by mooncake.pd",
    ):
        assert part in text


def test_fewer_hugepages_than_asked_for_are_told_with_the_numbers(host):
    host.most[f"{POOLS}/nr_hugepages"] = 300
    tuning = host.tune(hugepages=[{"size": "2MB", "pages": 512, "node": None}])
    assert "300 of 512 are there, 212 are missing" in (tuning.shortage() or "")
    assert f"{POOLS}/nr_hugepages - - - - 512" in host.text(boot.TMPFILES)
    again = host.tune(hugepages=[{"size": "2MB", "pages": 512, "node": None}])
    assert again.shortage()
    assert not again.changed
    host.tune(state="absent")
    assert host.text(f"{POOLS}/nr_hugepages").strip() == "0"


def test_hugepages_per_node(host):
    host.most[NODES.format(1)] = 10
    tuning = host.tune(hugepages=[{"size": "2M", "pages": 64, "node": 0}, {"size": "2M", "pages": 64, "node": 1}])
    assert [host.text(NODES.format(node)).strip() for node in (0, 1)] == ["64", "10"]
    text = tuning.shortage() or ""
    assert "hugepages of 2MB on node 1: 10 of 64 are there" in text
    assert "on node 0:" not in text
    assert "hugepages=0:64,1:64" in text


def test_memory_is_put_together_only_when_told_to(host):
    host.most[f"{POOLS}/nr_hugepages"] = 300
    host.compacted[f"{POOLS}/nr_hugepages"] = 512
    pages = [{"size": "2MB", "pages": 512, "node": None}]
    assert host.tune(hugepages=pages).shortage()
    assert not any("compact" in write for write in host.writes)
    assert host.tune(hugepages=pages, hugepages_compact=True).shortage() is None


def test_hugepages_that_would_take_all_memory_are_refused(host):
    (problem,) = refused(host, hugepages=[{"size": "2MB", "pages": 20000, "node": None}])
    assert "are available" in problem


def test_hugepages_of_the_command_line_are_not_taken_away(host):
    host.file(f"{POOLS}/nr_hugepages", "1000\n")
    host.tune(hugepages=[{"size": "2MB", "pages": 512, "node": None}])
    assert host.text(f"{POOLS}/nr_hugepages").strip() == "1000"
    assert not host.exists(boot.TMPFILES)


def test_hugepages_of_another_file_are_a_problem(host):
    host.file("/etc/sysctl.d/hp.conf", "vm.nr_hugepages = 100\n")
    (problem,) = refused(host, hugepages=[{"size": "2MB", "pages": 512, "node": None}])
    assert "hp.conf line 1 sets vm.nr_hugepages = 100" in problem


def test_what_cannot_be_set_here_is_skipped_and_stands_in_no_file(host):
    host.file(THP, "[always] madvise never\n", 0o444)
    host.file(SWAP, "60\n", 0o444)
    host.file("/proc/self/status", "CapEff:\t00000000a80425fb\n")
    for cpu in (0, 1):
        (host.path / f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor").unlink()
    host.file(f"{POOLS}/nr_hugepages", "0\n", 0o444)
    host.file("/etc/pam.d/su", "session required pam_unix.so\n")
    tuning = host.tune(**{**EVERYTHING, "sysctl": {"vm.swappiness": 0, "net.core.nothing": 1}, "reserved_ports": []})
    assert {entry["name"]: entry["why"] for entry in tuning.wishes.skipped} == {
        "vm.swappiness": "this kernel lets nobody write it",
        "net.core.nothing": "this kernel does not have it",
        "hugepages of 2MB": "this kernel lets nobody write it",
        "transparent_hugepages": "this kernel lets nobody write it",
        "governor": "this host does not let the kernel set the speed of its CPUs (no cpufreq)",
        "limits": "no service of PAM asks for them (pam_limits.so in /etc/pam.d)",
        "/dev/shm": "nothing may be mounted here (no CAP_SYS_ADMIN, a container?); give the container --shm-size",
    }
    assert not tuning.changed
    assert host.writes == []


def test_limits_that_no_login_gets_are_skipped_one_by_one(host):
    host.file("/proc/self/status", "CapEff:\t00000000a80425fb\n")
    tuning = host.tune(
        limits=[
            {"domain": "mooncake", "type": "-", "item": "memlock", "value": "unlimited"},
            {"domain": "mooncake", "type": "-", "item": "nofile", "value": "4096"},
        ]
    )
    (skip,) = tuning.wishes.skipped
    assert skip["name"] == "limits: mooncake - memlock unlimited"
    assert "8192 at most" in skip["why"]
    assert "nofile 4096" in host.text(login_limits.FILE)
    assert "memlock" not in host.text(login_limits.FILE)


def test_what_stands_there_already_is_not_skipped_where_it_cannot_be_written(host):
    host.file(THP, "always [madvise] never\n", 0o444)
    assert host.tune(transparent_hugepages="madvise").wishes.skipped == []


def test_a_kernel_that_takes_a_value_and_does_nothing_is_told(host):
    host.deaf.add(SWAP)
    tuning = host.tune(sysctl={"vm.swappiness": 0})
    assert tuning.errors == ["vm.swappiness could not be set to 0: the kernel has 60 all the same"]
    assert not host.exists(record.FILE)


def test_shm_is_not_made_smaller_than_what_lies_in_it(host):
    host.shm_used = 20 * GIB
    (problem,) = refused(host, shm_size="16G")
    assert "in use" in problem
    (problem,) = refused(host, shm_size="65G")
    assert "more than the memory" in problem


def test_logins_are_not_locked_out_by_a_limit_that_is_only_wished_for(host):
    limits = [{"domain": "*", "type": "-", "item": "nofile", "value": "unlimited"}]
    with pytest.raises(Refused, match="cannot log in"):
        host.tuning(sysctl={"fs.nr_open": {"at_least": 2000000}}, limits=limits)


def test_run_that_was_broken_off_can_be_taken_back(host, monkeypatch):
    monkeypatch.setattr(Kernel, "run", lambda self, argv: (nothing for nothing in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        host.tune(sysctl={"vm.swappiness": 0}, shm_size="16G")
    assert host.text(SWAP).strip() == "0"
    host.tune(state="absent")
    assert host.text(SWAP).strip() == "60"
    assert host.text("/etc/fstab") == "UUID=0 / ext4 defaults 0 1\n"
    assert not host.exists(record.FILE)


def test_record_that_others_may_have_written_is_not_believed(host):
    host.tune(sysctl={"vm.swappiness": 0})
    path = host.path / record.FILE.lstrip("/")
    evil = {"values": {"kernel.core_pattern": {"before": "|/tmp/x", "set": "0", "path": SWAP}}}
    path.write_text(json.dumps(evil))
    path.chmod(0o666)
    (problem,) = refused(host, state="absent")
    assert "may be written by others" in problem
    path.unlink()
    other = host.path / "other.json"
    other.write_text("{}")
    os.symlink(other, path)
    (problem,) = refused(host, state="absent")
    assert "link" in problem
    path.unlink()
    path.write_text("{")
    (problem,) = refused(host, state="absent")
    assert "cannot be read" in problem


def test_file_of_somebody_else_stays(host):
    host.file(sysctls.FILE, "vm.swappiness = 5\n")
    tuning = host.tune(state="absent")
    assert tuning.kept == [{"name": sysctls.FILE, "why": "it was not written by mooncake.pd"}]
    assert host.exists(sysctls.FILE)


def test_more_files_are_written_replaced_and_removed(host):
    one = {"path": "/etc/logrotate.d/mooncake-pd", "content": "a\n", "executable": False}
    two = {"path": "/usr/local/bin/mooncake-pd-x", "content": "b\n", "executable": True}
    host.file(one["path"], "of an earlier run\n")
    assert host.tune(files=[one, two]).changed
    assert (host.text(one["path"]), host.text(two["path"])) == ("a\n", "b\n")
    assert os.stat(host.at(two["path"])).st_mode & 0o777 == 0o755
    assert not host.tune(files=[one, two]).changed
    host.tune(files=[one])
    assert not host.exists(two["path"])
    assert host.tune(state="absent").changed
    assert not host.exists(one["path"])
    assert not host.exists(record.FILE)
