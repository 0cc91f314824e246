# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule is seen to speak, at the right place and alone, and to be silent on a topology that keeps it."""

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu, problems, rules


def hybrid():
    return ascend("MooncakeHybridConnector")


def dense():
    """Ascend with one process on each side."""
    raw = ascend()
    raw["prefill"][0] |= {"tp": 8, "dp": 1}
    raw["decode"][0] |= {"tp": 8, "dp": 1}
    return raw


@pytest.mark.parametrize("make", [cpu, ascend, hybrid, lambda: ascend("MooncakeLayerwiseConnector"), dense])
def test_good_topologies_have_no_problem(make):
    assert problems(make()) == ()


# what is changed in a good topology -> what has to be found
FAULTS = {
    "an unknown connector": (
        cpu,
        lambda raw: raw["connector"].update(name="MooncakeConector"),
        ("connector-unknown", "connector.name"),
    ),
    "the connector of another engine": (
        cpu,
        lambda raw: raw.update(connector={"name": "MooncakeConnectorV1"}),
        ("connector-unknown", "connector.name"),
    ),
    "an engine that is too old": (
        ascend,
        lambda raw: raw["engine"].update(version="0.11.0"),
        ("connector-version", "engine.version"),
    ),
    "an engine without the hybrid connector": (
        hybrid,
        lambda raw: raw["engine"].update(version="0.19.1rc1"),
        ("connector-version", "engine.version"),
    ),
    "another protocol": (
        cpu,
        lambda raw: raw["connector"].update(protocol="ascend"),
        ("connector-protocol", "connector.protocol"),
    ),
    "an unknown host": (cpu, lambda raw: raw["prefill"][0].update(host="p9"), ("host-unknown", "prefill[0].host")),
    "an unknown host of the router": (
        cpu,
        lambda raw: raw["router"].update(host="controll"),
        ("host-unknown", "router.host"),
    ),
    "an unknown host of the master": (cpu, lambda raw: raw["master"].update(host="x"), ("host-unknown", "master.host")),
    "a host that does nothing": (
        cpu,
        lambda raw: raw["hosts"].update(spare={"address": "192.0.2.99"}),
        ("host-unused", "hosts.spare"),
    ),
    "a host with the name of a group": (
        cpu,
        lambda raw: (raw["hosts"].update(router=raw["hosts"].pop("control")), _move(raw, "control", "router")),
        ("host-name", "hosts.router"),
    ),
    "a host whose name is a pattern": (
        cpu,
        lambda raw: (raw["hosts"].update({"p[1:2]": raw["hosts"].pop("p1")}), _move(raw, "p1", "p[1:2]")),
        ("host-name", "hosts.p[1:2]"),
    ),
    "an address twice": (
        cpu,
        lambda raw: raw["hosts"]["d1"].update(address="192.0.2.11"),
        ("address-duplicate", "hosts.d1.address"),
    ),
    "an IPv6 address": (
        ascend,
        lambda raw: raw["hosts"]["npu1"].update(address="2001:db8::1"),
        ("address-ipv6", "hosts.npu1.address"),
    ),
    "a loopback address among several hosts": (
        cpu,
        lambda raw: raw["hosts"]["p1"].update(address="127.0.0.1"),
        ("address-loopback", "hosts.p1.address"),
    ),
    "a variable that hides the plan": (
        cpu,
        lambda raw: raw["hosts"]["p1"].update(vars={"pd_host": {}}),
        ("host-vars", "hosts.p1.vars.pd_host"),
    ),
    "no prefill": (
        cpu,
        lambda raw: (raw["prefill"].clear(), raw["hosts"].pop("p1")),
        ("side-missing", "prefill"),
    ),
    "no decode": (cpu, lambda raw: (raw["decode"].clear(), raw["hosts"].pop("d1")), ("side-missing", "decode")),
    "a name that cannot be a group": (
        cpu,
        lambda raw: raw["prefill"][0].update(name="p-1"),
        ("instance-name", "prefill[0].name"),
    ),
    "the name of another unit": (
        cpu,
        lambda raw: raw["decode"][0].update(name="master"),
        ("instance-name", "decode[0].name"),
    ),
    "a name twice": (cpu, lambda raw: raw["decode"][0].update(name="p1"), ("instance-duplicate", "decode[0].name")),
    "instances of one side with different shapes": (
        dense,
        lambda raw: raw["prefill"].append(
            {"name": "p2", "host": "npu2", "tp": 4, "devices": [8, 9, 10, 11], "api_port": 8300, "kv_port": 28100}
        ),
        ("shape-differs", "prefill[1]"),
    ),
    "a decode that is wider than prefill": (
        ascend,
        lambda raw: raw["decode"][0].update(tp=8, dp=1),
        ("shape-tp", "decode[0].tp"),
    ),
    "a decode that does not divide prefill": (
        ascend,
        lambda raw: raw["decode"][0].update(tp=3, dp=1),
        ("shape-tp", "decode[0].tp"),
    ),
    "sizes that do not divide": (
        cpu,
        lambda raw: (raw["prefill"][0].update(tp=2), raw["decode"][0].update(tp=3)),
        ("shape-tp", "decode[0].tp"),
    ),
    "data parallelism on CPU": (cpu, lambda raw: raw["prefill"][0].update(dp=2), ("shape-dp", "prefill[0].dp")),
    "recompute for hybrid models": (
        hybrid,
        lambda raw: raw["decode"][0].update(kv_load_failure_policy="recompute"),
        ("recompute-hybrid", "decode[0].kv_load_failure_policy"),
    ),
    "too few devices": (
        ascend,
        lambda raw: raw["prefill"][0].update(devices=[0, 1, 2]),
        ("devices-count", "prefill[0].devices"),
    ),
    "a device twice in an instance": (
        ascend,
        lambda raw: raw["prefill"][0].update(devices=[0, 1, 2, 3, 4, 5, 6, 6]),
        ("devices-overlap", "prefill[0].devices"),
    ),
    "a device of two instances": (
        dense,
        lambda raw: raw["prefill"].append(
            {"name": "p2", "host": "npu1", "tp": 8, "devices": list(range(7, 15)), "api_port": 8300, "kv_port": 28100}
        ),
        ("devices-overlap", "prefill[1].devices"),
    ),
    "a key of the other engine": (
        cpu,
        lambda raw: raw["prefill"][0].update(kv_port=28002),
        ("key-without-effect", "prefill[0].kv_port"),
    ),
    "a bootstrap port on NPUs": (
        ascend,
        lambda raw: raw["prefill"][0].update(bootstrap_port=8998),
        ("key-without-effect", "prefill[0].bootstrap_port"),
    ),
    "a bootstrap port of decode": (
        cpu,
        lambda raw: raw["decode"][0].update(bootstrap_port=8998),
        ("key-without-effect", "decode[0].bootstrap_port"),
    ),
    "an argument of the plan": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--seed", "1", "--port=9000"]),
        ("planned-argument", "prefill[0].args[2]"),
    ),
    "an argument of the plan in another spelling": (
        cpu,
        lambda raw: raw.update(engine_args=["--kv_transfer_config.kv_role", "kv_both"]),
        ("planned-argument", "engine_args[0]"),
    ),
    "an argument that changes the shape": (
        ascend,
        lambda raw: raw["decode"][0].update(args=["--headless"]),
        ("planned-argument", "decode[0].args[0]"),
    ),
    "a shape in a short spelling": (
        ascend,
        lambda raw: raw["decode"][0].update(args=["-pp", "2"]),
        ("planned-argument", "decode[0].args[0]"),
    ),
    "a value glued to a short option": (
        cpu,
        lambda raw: raw.update(engine_args=["--seed", "1", "-tp4"]),
        ("planned-argument", "engine_args[2]"),
    ),
    "a value glued to an option of the shape": (
        ascend,
        lambda raw: raw.update(engine_args=["-n2"]),
        ("planned-argument", "engine_args[0]"),
    ),
    "the beginning of an option of the plan": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--tensor-parallel", "4"]),
        ("abbreviated-argument", "prefill[0].args[0]"),
    ),
    "the beginning of an option of the plan with its value": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--por=9000"]),
        ("abbreviated-argument", "prefill[0].args[0]"),
    ),
    "the beginning of a short option": (
        cpu,
        lambda raw: raw.update(engine_args=["-t", "4"]),
        ("abbreviated-argument", "engine_args[0]"),
    ),
    "the beginning of the count of API servers": (
        cpu,
        lambda raw: raw.update(engine_args=["--api_server", "4"]),
        ("abbreviated-argument", "engine_args[0]"),
    ),
    "a file of options": (
        cpu,
        lambda raw: raw.update(engine_args=["--config=/etc/vllm.yaml"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "the end of the options": (cpu, lambda raw: raw.update(engine_args=["--"]), ("refused-argument", "engine_args[0]")),
    "a socket in the file system": (
        cpu,
        lambda raw: raw["decode"][0].update(args=["--uds", "/run/vllm.sock"]),
        ("refused-argument", "decode[0].args[0]"),
    ),
    "another protocol on the API's port": (
        cpu,
        lambda raw: raw.update(engine_args=["--grpc"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "TLS of the engine": (
        cpu,
        lambda raw: raw["prefill"][0].update(args=["--ssl_keyfile", "/etc/ssl/key.pem"]),
        ("refused-argument", "prefill[0].args[0]"),
    ),
    "a key of the engine": (
        cpu,
        lambda raw: raw.update(engine_args=["--api-key", "secret"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a key of the engine in its environment": (
        cpu,
        lambda raw: raw["prefill"][0].update(environment={"VLLM_API_KEY": "secret"}),
        ("refused-variable", "prefill[0].environment.VLLM_API_KEY"),
    ),
    "no metrics": (
        cpu,
        lambda raw: raw.update(engine_args=["--disable-log-stats"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a log level that hides the line of readiness": (
        cpu,
        lambda raw: raw.update(engine_args=["--uvicorn-log-level", "warning"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a log level that hides the line of readiness with its value": (
        cpu,
        lambda raw: raw.update(engine_args=["--uvicorn-log-level=error"]),
        ("refused-argument", "engine_args[0]"),
    ),
    "a log level that hides the lines of the connector": (
        ascend,
        lambda raw: raw.update(engine_environment={"VLLM_LOGGING_LEVEL": "WARNING"}),
        ("refused-variable", "engine_environment.VLLM_LOGGING_LEVEL"),
    ),
    "a variable that tells of an upgrade": (
        cpu,
        lambda raw: raw.update(engine_environment={"MOONCAKE_PD_MOONCAKE": "0.3.13.post1"}),
        ("planned-variable", "engine_environment.MOONCAKE_PD_MOONCAKE"),
    ),
    "a variable of the plan": (
        cpu,
        lambda raw: raw.update(engine_environment={"VLLM_HOST_IP": "192.0.2.1"}),
        ("planned-variable", "engine_environment.VLLM_HOST_IP"),
    ),
    "a variable of the plan at an instance": (
        ascend,
        lambda raw: raw["prefill"][0].update(environment={"ASCEND_RT_VISIBLE_DEVICES": "0"}),
        ("planned-variable", "prefill[0].environment.ASCEND_RT_VISIBLE_DEVICES"),
    ),
    "a variable beside the interface": (
        ascend,
        lambda raw: raw.update(engine_environment={"GLOO_SOCKET_IFNAME": "eth0"}),
        ("planned-variable", "engine_environment.GLOO_SOCKET_IFNAME"),
    ),
    "a router that speaks another contract": (
        ascend,
        lambda raw: raw["router"].update(kind="ascend_layerwise"),
        ("router-kind", "router.kind"),
    ),
    "a router for layerwise that speaks another contract": (
        lambda: ascend("MooncakeLayerwiseConnector"),
        lambda raw: raw["router"].update(kind="vllm_router"),
        ("router-kind", "router.kind"),
    ),
    "one router process only": (
        cpu,
        lambda raw: raw["router"].update(backend_ports=[18001]),
        ("router-backends", "router.backend_ports"),
    ),
    "two metrics on one port": (
        cpu,
        lambda raw: raw["router"].update(metrics_ports=[29001, 29001]),
        ("port-overlap", "router.metrics_ports[1]"),
    ),
    "two instances on one host with the default port": (
        cpu,
        lambda raw: raw["decode"].append({"name": "d2", "host": "d1"}),
        ("port-overlap", "decode[1].api_port"),
    ),
    "two prefills on one host with the default bootstrap port": (
        cpu,
        lambda raw: raw["prefill"].append({"name": "p2", "host": "p1", "api_port": 8101}),
        ("port-overlap", "prefill[1].bootstrap_port"),
    ),
    "two ports of one process": (
        cpu,
        lambda raw: raw["prefill"][0].update(bootstrap_port=8100),
        ("port-overlap", "prefill[0].bootstrap_port"),
    ),
    "a port that the transfer engine draws from": (
        cpu,
        lambda raw: raw["decode"][0].update(api_port=16000),
        ("port-overlap", "decode[0].api_port"),
    ),
    "kv ports among those of the NPU transport": (
        dense,
        lambda raw: raw["prefill"][0].update(kv_port=20793),
        ("port-overlap", "prefill[0].kv_port"),
    ),
    "the last rank's kv ports among the API ports": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=8094),
        ("port-overlap", "prefill[0].kv_port"),
    ),
    "a metrics port where an old master listens on all addresses": (
        cpu,
        lambda raw: (raw["mooncake"].update(version="0.3.12"), raw["router"].update(metrics_ports=[9003, 29002])),
        ("port-overlap", "router.metrics_ports[0]"),
    ),
    "a computed port beyond the end": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=65530),
        ("port-out-of-range", "prefill[0].kv_port"),
    ),
    "an ephemeral port": (
        cpu,
        lambda raw: raw["master"].update(rpc_port=50051),
        ("port-in-ephemeral-range", "master.rpc_port"),
    ),
    "a range that reaches into the ephemeral ports": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=32761),
        ("port-in-ephemeral-range", "prefill[0].kv_port"),
    ),
    "a NodePort": (
        ascend,
        lambda raw: raw["prefill"][0].update(kv_port=30000),
        ("port-in-nodeport-range", "prefill[0].kv_port"),
    ),
}


def _move(raw, old, new):
    for place in (*raw["prefill"], *raw["decode"], raw["router"], raw["master"]):
        place["host"] = new if place["host"] == old else place["host"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_alone(name):
    make, change, expected = FAULTS[name]
    raw = make()
    change(raw)
    assert rules(raw) == {expected}


@pytest.mark.parametrize(
    "args",
    [
        ["--model-impl", "transformers", "--config-format", "hf", "--seed=1", "--block-size", "-1"],
        ["--uvicorn-log-level", "info", "--log-level=DEBUG", "--disable-uvicorn-access-log"],
        ["-q", "ascend", "-ep", "-dcp", "2", "-O3", "-cc.mode", "3", "--no-enable-prefix-caching"],
        ["--api-server-count", "2", "--enable-log-requests", "--disable-access-log-for-endpoints", "/health"],
        ["--compilation-config", '{"cudagraph_mode":"FULL_DECODE_ONLY"}', "--enable-expert-parallel"],
    ],
    ids=lambda args: args[0],
)
def test_other_arguments_are_the_operators(args):
    assert problems({**ascend(), "engine_args": args}) == ()


WARNINGS = {"host-unused", "port-in-ephemeral-range", "port-in-nodeport-range"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_problem_says_what_breaks_and_how_to_mend_it(name):
    make, change, _expected = FAULTS[name]
    raw = make()
    change(raw)
    (problem,) = problems(raw)
    assert problem.severity == ("warning" if problem.rule in WARNINGS else "error")
    assert problem.message.endswith(".")
    assert problem.fix.endswith((".", "?"))
    assert "{" not in problem.message + problem.fix.replace("{name: ", "").replace("}", "")


def only(raw):
    (problem,) = problems(raw)
    return problem


def test_an_overlap_names_both_claims_both_places_and_a_free_port():
    raw = cpu()
    raw["prefill"].append({"name": "p2", "host": "p1", "bootstrap_port": 8999})
    problem = only(raw)
    assert problem.message == (
        "api 8100 of p2 on p1 overlaps api 8100 of p1 (prefill[0].api_port): "
        "the second to start fails with 'Address already in use' or hangs."
    )
    assert problem.fix == "set prefill[1].api_port to 8101, which is free on p1."


def test_an_overlap_with_a_pool_names_the_process_that_draws_from_it():
    raw = dense()
    raw["mooncake"]["version"] = "0.3.7.post2"
    raw["prefill"][0]["kv_port"] = 28000  # what the documents advise, one too low
    problem = only(raw)
    assert (
        "kv 28000-28007 of p1 on npu1 lies among the ports 20000-28000 that p1 (prefill[0].devices)" in problem.message
    )
    assert problem.fix == "set prefill[0].kv_port to 28001, which is free on npu1."


def test_the_port_that_an_overlap_proposes_is_good():
    raw = ascend()
    raw["prefill"][0] |= {"kv_port": 8094}
    value = int(only(raw).fix.split(" to ")[1].split(",")[0])
    raw["prefill"][0]["kv_port"] = value
    assert problems(raw) == ()


def test_ports_of_different_addresses_or_hosts_do_not_meet():
    raw = cpu()
    raw["router"] |= {"port": 18001}  # HAProxy has the host's address, the router processes 127.0.0.1
    raw["prefill"][0]["api_port"] = 8200
    assert problems(raw) == ()


def test_the_side_that_does_not_bind_claims_no_kv_ports():
    raw = dense()
    raw["decode"][0]["kv_port"] = 8200
    assert problems(raw) == ()


def test_a_lone_host_may_be_its_own_loopback():
    raw = cpu()
    raw["hosts"] = {"all_in_one": {"address": "127.0.0.1"}}
    for place in (*raw["prefill"], *raw["decode"], raw["router"], raw["master"]):
        place["host"] = "all_in_one"
    assert problems(raw) == ()


def test_upstream_takes_sizes_either_way_round():
    raw = cpu()
    raw["decode"][0]["tp"] = 2
    assert problems(raw) == ()


def test_unknown_names_bring_a_suggestion():
    raw = cpu()
    raw["connector"]["name"] = "MooncakeConnecter"
    assert only(raw).fix == "did you mean MooncakeConnector?"
    raw = cpu()
    raw["prefill"][0]["host"] = "p11"
    assert only(raw).fix == "did you mean p1?"


def test_warnings_alone_do_not_stop_the_plan_but_come_with_errors():
    raw = cpu()
    raw["master"]["rpc_port"] = 50051
    assert {problem.severity for problem in problems(raw)} == {"warning"}
    raw["prefill"][0]["dp"] = 2
    assert {problem.severity for problem in problems(raw)} == {"warning", "error"}
