# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who keeps the units of an instance together: which hosts have a supervisor, what it is told, and its port."""

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.peers import to_try
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import document
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.faults import internal
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import (
    ascend,
    complete,
    cpu,
    option,
    plan,
    ports,
    rules,
)


def external():
    raw = internal()
    raw["engine"]["data_parallel"] = "external"
    return raw


def supervisors(raw):
    built = plan(raw)
    return {
        (host, one["name"]): one
        for host in raw["hosts"]
        for one in complete(built, host)
        if one["kind"] == "supervisor"
    }


def after(argv, name):
    """The words of an option."""
    words = argv[argv.index(name) + 1 :]
    return words[: next((n for n, word in enumerate(words) if word.startswith("--")), len(words))]


def test_only_instances_of_several_units_have_them_one_on_each_host():
    assert supervisors(cpu()) == {}
    assert list(supervisors(internal())) == [("npu3", "d1-group"), ("npu4", "d1-group")]
    assert list(supervisors(external())) == [
        *(("npu1", "p1-group"), ("npu2", "p2-group")),
        *(("npu3", "d1-group"), ("npu4", "d1-group")),
    ]


def test_the_first_host_listens_and_the_others_connect_to_it():
    found = supervisors(external())
    head, other = found["npu3", "d1-group"], found["npu4", "d1-group"]
    argv = head["unit"]["argv"]
    assert (option(argv, "--listen"), after(argv, "--hosts")) == (
        "192.0.2.33:17600",
        ["npu3=192.0.2.33", "npu4=192.0.2.34"],
    )
    assert ports(head) == {"group": [(17600, 17600)]}
    assert head["ready"]["ports"] == [{"purpose": "group", "address": "192.0.2.33", "first": 17600, "last": 17600}]
    argv = other["unit"]["argv"]
    assert (option(argv, "--head"), option(argv, "--address")) == ("192.0.2.33:17600", "192.0.2.34")
    assert (ports(other), "--listen" in argv) == ({}, False)
    assert after(argv, "--units") == [f"mooncake-pd-d1-{rank}.service" for rank in range(16, 32)]
    assert (option(argv, "--cluster"), option(argv, "--instance"), option(argv, "--host")) == ("npu", "d1", "npu4")


def test_on_one_host_nobody_listens():
    argv = supervisors(ascend())["npu1", "p1-group"]["unit"]["argv"]
    assert after(argv, "--units") == ["mooncake-pd-p1-0.service", "mooncake-pd-p1-1.service"]
    assert not {"--listen", "--head"} & set(argv)


def test_it_is_no_part_of_its_instance():
    """Whatever picks the processes of an instance drains, proves and rolls them; it does none of that."""
    one = supervisors(ascend())["npu1", "p1-group"]
    assert (one["instance"], one["supervises"], one["ready"]["health"]) == (None, "p1", None)
    assert {end.port for end in plan(ascend()).endpoints["p1"]} == {8100, 8104}


def test_port_and_patience_can_be_given():
    raw = external()
    raw["decode"][0] |= {"group_port": 14500, "group_grace": 90}
    argv = supervisors(raw)["npu4", "d1-group"]["unit"]["argv"]
    assert (option(argv, "--head"), option(argv, "--grace")) == ("192.0.2.33:14500", "90")
    assert "decode[0].group_port" not in {choice.where for choice in plan(raw).choices}


def test_ports_of_groups_on_one_host_do_not_clash():
    raw = external()
    raw["decode"] = [
        {"name": "d1", "hosts": ["npu3", "npu4"], "dp": 16, "tp": 1, "devices": list(range(8))},
        {"name": "d2", "hosts": ["npu3", "npu4"], "dp": 16, "tp": 1, "devices": list(range(8, 16))},
    ]
    raw["prefill"][0].update(dp=1, tp=8)
    raw["prefill"][1].update(dp=1, tp=8)
    built = [ports(one) for one in supervisors(raw).values() if ports(one)]
    assert built == [{"group": [(17600, 17600)]}, {"group": [(17608, 17608)]}]


def test_a_port_that_is_taken_is_told_with_its_key():
    raw = external()
    raw["decode"][0]["group_port"] = 8200
    assert ("port-overlap", "decode[0].group_port") in rules(raw)


@pytest.mark.parametrize("key", ["group_port", "group_grace"])
def test_keys_without_effect(key):
    raw = cpu()
    raw["prefill"][0][key] = 17600
    assert rules(raw) == {("key-without-effect", f"prefill[0].{key}")}
    raw = ascend()
    raw["decode"][0][key] = 17600
    assert rules(raw) == {("group-idle", f"decode[0].{key}")}


def test_hosts_of_the_instance_try_the_port_before_anything_runs():
    built = plan(external())
    planned = {host: built.hostvars(host)["pd_host"] for host in ("npu3", "npu4")}
    assert "npu3" in planned["npu4"]["peers"]
    assert to_try(planned["npu3"])["ports"]["group"] == 17600


def test_it_starts_in_the_wave_of_what_it_supervises():
    order = document(plan(external()))["start_order"]
    assert [wave["name"] for wave in order] == ["prefill", "decode", "router"]
    (decode,) = order[1]["members"]
    assert (decode["name"], decode["hosts"], decode["processes"].count("d1-group")) == ("d1", ["npu3", "npu4"], 2)


def test_another_port_is_no_other_unit_for_the_ranks():
    before, after_ = external(), external()
    after_["decode"][0]["group_port"] = 14500

    def ranks(raw):
        return [one for one in complete(plan(raw), "npu3") if one["kind"] == "decode"]

    assert ranks(before) == ranks(after_)
