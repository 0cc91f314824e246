# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories that are shipped can be planned, and what they start is what the pages they follow print."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import read_topology
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import complete

Raw = dict[str, Any]
INVENTORIES = Path(__file__).parents[4] / "inventories"
FILES = sorted(INVENTORIES.glob("*/topology.yml"))


def raw(name: str) -> Raw:
    return dict(yaml.safe_load((INVENTORIES / name / "topology.yml").read_text(encoding="utf-8")))


def plan(content: Raw) -> Plan:
    return build_plan(read_topology(content))


def engines(made: Plan) -> dict[str, Raw]:
    """Each engine process by name, with its host."""
    return {
        item["name"]: {**item, "host": host}
        for host in made.processes
        for item in complete(made, host)
        if item["instance"]
    }


def options(argv: list[str]) -> Raw:
    """Every option and its value, switches as True, JSON read, and the model as the page's first word."""
    found: Raw = {"model": argv[2]}
    for word, following in pairwise((*argv[3:], "--")):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            text = value if equals else following
            if not equals and following.startswith("--"):
                text = None
            found[name] = json.loads(text) if text and text.startswith("{") else (True if text is None else text)
    return found


def differences(page: Raw, planned: Raw) -> Raw:
    """What the plan does otherwise than the page: name -> (page, plan), None where one of them says nothing."""
    return {
        name: (page.get(name), planned.get(name))
        for name in sorted({*page, *planned})
        if page.get(name) != planned.get(name)
    }


# what every plan has beside a page, and why
ADDED_VARIABLES = {
    "DO_NOT_TRACK",  # nothing on a closed network may wait for the outside
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "VLLM_NO_USAGE_STATS",
    "PYTHONUNBUFFERED",  # the log shows the last line of a process that died
    "MOONCAKE_PD_ENGINE",  # a new release is a new unit
    "MOONCAKE_PD_MOONCAKE",
    "VLLM_HOST_IP",  # decides the address of kv_port where a host has several
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_every_inventory_can_be_planned(path):
    made = plan(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert made.warnings == ()
    assert made.topology.name.partition("_")[0] == path.parent.name.partition("_")[0]
    assert (path.parent / "group_vars" / "all.yml").is_file()
    # ansible-galaxy packs no links to folders
    assert not [link for link in path.parent.rglob("*") if link.is_symlink() and link.is_dir()]


def test_the_worked_inventories_are_there():
    names = {path.parent.name for path in FILES}
    assert names >= {
        "ascend_1p1d_a2",
        "ascend_2p1d_a3",
        "ascend_2p1d_a3_pull",
        "ascend_2p1d_a3_external",
        "sandbox",
        "sandbox_2p2d",
        # the three tiers
        "single",
        "tcp_pair",
        "production",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("ascend_1p1d_a2", "ascend_2p1d_a3", "ascend_2p1d_a3_pull", "ascend_2p1d_a3_external"),
        *("single", "production"),
    ],
)
def test_settings_beside_the_topology(name):
    variables = yaml.safe_load((INVENTORIES / name / "group_vars/all.yml").read_text(encoding="utf-8"))
    environment = raw(name)["engine_environment"]
    # vLLM's own limit, where it has one, ends first
    assert variables["instance_ready_timeout"] > int(environment.get("VLLM_ENGINE_READY_TIMEOUT_S", 1800))
    # it would replace LD_LIBRARY_PATH of the topology
    assert "instance_environment" not in variables
    proxy = plan(raw(name)).cluster()["router"]["kind"] == "ascend_layerwise"
    assert ("router_proxy_script" in variables) is proxy


def test_the_guides_tell_of_every_inventory():
    """Sandboxes apart, which have a line for both of them."""
    for guide in ("README.md", "README.zh-CN.md"):
        text = (INVENTORIES.parent / guide).read_text(encoding="utf-8")
        told = {path.parent.name for path in FILES if f"| `{path.parent.name}`" in text}
        assert told >= {path.parent.name for path in FILES} - {"sandbox", "sandbox_2p2d"}, guide


# ---- the three tiers


def kinds(made: Plan) -> dict[str, list[str]]:
    """Which kinds of process each host runs."""
    return {host: sorted({item.kind for item in processes}) for host, processes in made.processes.items()}


def test_single_has_all_on_one_host():
    made = plan(raw("single"))
    assert kinds(made) == {"npu1": ["decode", "frontend", "master", "prefill", "router"]}
    devices = [item["unit"]["environment"]["ASCEND_RT_VISIBLE_DEVICES"] for item in engines(made).values()]
    assert devices == ["0,1,2,3", "4,5,6,7"]
    told = made.cluster()["store"]
    assert (told["bytes"], told["sides"]) == (4 * 16 << 30, ["prefill"])


def test_tcp_pair_needs_nothing_but_a_network():
    made = plan(raw("tcp_pair"))
    assert kinds(made) == {
        "cpu1": ["frontend", "master", "prefill", "router"],
        "cpu2": ["decode"],
    }
    assert (made.cluster()["connector"]["protocol"], made.cluster()["store"]["protocol"]) == ("tcp", "tcp")
    # installs what it runs, so nothing has to be there before
    variables = yaml.safe_load((INVENTORIES / "tcp_pair/group_vars/all.yml").read_text(encoding="utf-8"))
    assert (variables["engine_mode"], variables["mooncake_mode"]) == ("venv", "wheel")


def test_the_next_step_of_tcp_pair_is_one_word():
    content = raw("tcp_pair")
    content["connector"]["protocol"] = "rdma"
    made = plan(content)
    assert (made.warnings, made.cluster()["store"]["protocol"]) == ((), "rdma")


def test_production_survives_what_it_says():
    made = plan(raw("production"))
    cluster = made.cluster()
    assert [kind for kind, hosts in kinds(made).items() if "etcd" in hosts] == ["ctl1", "ctl2", "ctl3"]
    assert (cluster["master"]["hosts"], cluster["master"]["ha"]) == (["ctl1", "ctl2"], True)
    assert made.topology.etcd is not None
    assert made.topology.etcd.tls == "peers"
    # no server has two instances, and none has both an engine and what all engines need
    instances = [
        {item["instance"] for item in engines(made).values() if item["host"] == f"npu{n}"} for n in range(1, 9)
    ]
    assert instances == [{name} for name in ("p1", "p2", "p3", "p4", "d1", "d2", "d3", "d4")]
    assert not {host for host, found in kinds(made).items() if {"prefill", "decode"} & set(found)} & {
        "ctl1",
        "ctl2",
        "ctl3",
    }
    # the pool it tells of: memory and disks
    assert cluster["store"]["bytes"] == 1 << 40
    shares = [item.pool for host in made.processes for item in made.processes[host] if item.pool and item.pool.disk]
    assert sum(share.disk.quota for share in shares) == 16 << 40


# ---- two A2 servers


def test_1p1d_a2():
    made = engines(plan(raw("ascend_1p1d_a2")))
    assert list(made) == ["p1-0", "p1-1", "d1-0", "d1-1"]
    for name, process in made.items():
        side, rank = name[0], int(name[-1])
        host, address = {"p": ("npu1", "192.0.2.31"), "d": ("npu2", "192.0.2.32")}[side]
        assert process["host"] == host
        given = options(process["unit"]["argv"])
        assert {key: given[key] for key in given if "parallel-" in key} == {
            "--tensor-parallel-size": "4",
            "--data-parallel-size": "2",
            "--data-parallel-rank": str(rank),
            "--data-parallel-address": address,
            "--data-parallel-rpc-port": "29550",
        }
        assert (given["--host"], given["--port"]) == (address, str({"p": 8100, "d": 8200}[side] + rank))
        config = given["--kv-transfer-config"]
        sizes = {"dp_size": 2, "tp_size": 4}
        assert config.pop("kv_load_failure_policy", None) == {"p": None, "d": "recompute"}[side]
        assert config == {
            "kv_connector": "MooncakeConnectorV1",
            "kv_role": {"p": "kv_producer", "d": "kv_consumer"}[side],
            "kv_port": 28002,
            "kv_connector_extra_config": {"prefill": sizes, "decode": sizes},
        }
        kv = [(c["first"], c["last"]) for c in process["claims"]["ports"] if c["purpose"] == "kv"]
        assert kv == {"p": [(28002 + 4 * rank, 28005 + 4 * rank)], "d": []}[side]
        devices = ["0,1,2,3", "4,5,6,7"][rank]
        assert process["unit"]["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == devices


@pytest.mark.parametrize("release", ["0.3.7.post2", "0.3.8.post1", "0.3.11.post1"])
def test_kv_ports_of_1p1d_a2_are_clear_with_every_mooncake(release):
    content = raw("ascend_1p1d_a2")
    content["mooncake"]["version"] = release
    try:
        found = plan(content).warnings
    except PlanError as error:
        found = error.problems
    assert [problem for problem in found if problem.rule.startswith("port")] == []


# ---- 2P1D on four A3 servers as the page of 0.11.0 prints it:
# v0.11.0 docs/source/tutorials/multi_node_pd_disaggregation_mooncake.md:109-334 (layerwise) and 336-556 (non-layerwise)

HOSTS = {"p1": "192.0.2.1", "p2": "192.0.2.2", "d1-0": "192.0.2.3", "d1-1": "192.0.2.4"}
LIBRARIES = "/usr/local/Ascend/ascend-toolkit/latest/python/site-packages"
OF_0_11 = {
    "ascend_2p1d_a3": ("MooncakeLayerwiseConnector", "vllm_ascend.distributed.mooncake_layerwise_connector"),
    "ascend_2p1d_a3_pull": ("MooncakeConnector", "vllm_ascend.distributed.mooncake_connector"),
}


def page_of_0_11(inventory: str, process: str) -> tuple[Raw, Raw]:
    """Options and environment that the page prints for a server."""
    connector, module = OF_0_11[inventory]
    prefill = process.startswith("p")
    config = {
        "kv_connector": connector,
        "kv_role": "kv_producer" if prefill else "kv_consumer",
        "kv_port": {"p1": "30000", "p2": "30100"}.get(process, "30200"),
        "engine_id": {"p1": "0", "p2": "1"}.get(process, "2"),
        "kv_connector_module_path": module,
        "kv_connector_extra_config": {
            "prefill": {"dp_size": 2, "tp_size": 8},
            "decode": {"dp_size": 32, "tp_size": 1},
        },
    }
    arguments: Raw = {
        "model": "/model/Qwen3-235B-A22B-W8A8",
        "--host": "0.0.0.0",
        "--port": "8004",
        "--enable-expert-parallel": True,
        "--seed": "1024",
        "--distributed-executor-backend": "mp",
        "--served-model-name": "qwen3-moe",
        "--max-model-len": "32768",
        "--trust-remote-code": True,
        "--gpu-memory-utilization": "0.9",
        "--kv-transfer-config": config,
    }
    if prefill:
        arguments |= {
            "--api-server-count": "1",
            "--data-parallel-size": "2",
            "--data-parallel-size-local": "2",
            "--data-parallel-address": HOSTS[process],
            "--data-parallel-rpc-port": "13389",
            "--tensor-parallel-size": "8",
            "--enforce-eager": True,
            "--max-num-batched-tokens": "32768",
        }
    else:
        arguments |= {
            "--data-parallel-size": "32",
            "--data-parallel-size-local": "16",
            "--data-parallel-address": HOSTS["d1-0"],
            "--data-parallel-rpc-port": "5964",
            "--tensor-parallel-size": "1",
            "--max-num-batched-tokens": "512",
            "--max-num-seqs": "16",
            "--no-enable-prefix-caching": True,
            "--compilation-config": {"cudagraph_capture_sizes": [16]},
        }
        first = process == "d1-0"
        arguments |= {"--api-server-count": "1"} if first else {"--headless": True, "--data-parallel-start-rank": "16"}
    environment = {
        "HCCL_IF_IP": HOSTS[process],
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HCCL_SOCKET_IFNAME": "eth0",
        "VLLM_USE_V1": "1",
        "HCCL_BUFFSIZE": "1024" if prefill else "2048",
        "OMP_PROC_BIND": "false",
        "OMP_NUM_THREADS": "10",
        "LD_LIBRARY_PATH": f"{LIBRARIES}:$LD_LIBRARY_PATH",
    }
    return arguments, environment


@pytest.mark.parametrize("inventory", OF_0_11)
def test_2p1d_a3_starts_what_the_page_of_0_11_prints(inventory):
    made = engines(plan(raw(inventory)))
    assert {name: item["unit"]["environment"]["HCCL_IF_IP"] for name, item in made.items()} == HOSTS
    for name, process in made.items():
        page, variables = page_of_0_11(inventory, name)
        given = options(process["unit"]["argv"])
        config, printed = given.pop("--kv-transfer-config"), page.pop("--kv-transfer-config")
        assert differences(page, given) == (
            # each process listens on the address by which its peers know it, not on every one of the host
            {"--host": ("0.0.0.0", HOSTS[name])}
            if name != "d1-1"
            # a headless process has no API, so address and port of one say nothing
            else {"--host": ("0.0.0.0", None), "--port": ("8004", None)}
        )
        assert differences(printed, config) == {"kv_port": (printed["kv_port"], KV_PORTS[inventory][name])}
        environment = dict(process["unit"]["environment"])
        # ties the units of a group together, where an instance has several
        assert ("MOONCAKE_PD_GROUP" in environment) is (name not in ("p1", "p2"))
        environment.pop("MOONCAKE_PD_GROUP", None)
        assert differences(variables, environment) == {
            # a unit has nothing to append to, so the rest of the path is written out
            "LD_LIBRARY_PATH": (variables["LD_LIBRARY_PATH"], environment["LD_LIBRARY_PATH"]),
            # 0.11.0 reads the time after which a prefill frees what nobody fetched by this name
            "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": (None, "480"),
            # the page takes all NPUs of the server, and that is what the plan says
            "ASCEND_RT_VISIBLE_DEVICES": (None, ",".join(map(str, range(16)))),
            **{added: (None, environment[added]) for added in ADDED_VARIABLES},
        }
        assert environment["LD_LIBRARY_PATH"].startswith(f"{LIBRARIES}:")
        # the page unsets them
        assert not [variable for variable in environment if variable.lower().endswith("_proxy")]


# A number instead of text; and where the side listens, 30000 and up are among what Mooncake 0.3.7.post2 draws.
KV_PORTS = {
    "ascend_2p1d_a3": {"p1": 30000, "p2": 30100, "d1-0": 19200, "d1-1": 19200},
    "ascend_2p1d_a3_pull": {"p1": 19000, "p2": 19100, "d1-0": 30200, "d1-1": 30200},
}


@pytest.mark.parametrize("inventory", OF_0_11)
def test_2p1d_a3_endpoints_and_listeners(inventory):
    made = plan(raw(inventory))
    urls = {name: [endpoint.url for endpoint in made.endpoints[name]] for name in made.endpoints}
    # as the page's proxy is told: one for each prefill, one for decode, and port 8080 of the first server
    assert urls == {
        "p1": ["http://192.0.2.1:8004"],
        "p2": ["http://192.0.2.2:8004"],
        "d1": ["http://192.0.2.3:8004"],
    }
    assert made.cluster()["router"]["url"] == "http://192.0.2.1:8080"
    kv = {
        name: [(c["first"], c["last"]) for c in process["claims"]["ports"] if c["purpose"] == "kv"]
        for name, process in engines(made).items()
    }
    assert (
        kv
        == {
            "ascend_2p1d_a3": {"p1": [], "p2": [], "d1-0": [(19200, 19215)], "d1-1": [(19216, 19231)]},
            "ascend_2p1d_a3_pull": {"p1": [(19000, 19015)], "p2": [(19100, 19115)], "d1-0": [], "d1-1": []},
        }[inventory]
    )


@pytest.mark.parametrize(
    ("inventory", "listening"),
    [("ascend_2p1d_a3", ["decode[0]"]), ("ascend_2p1d_a3_pull", ["prefill[0]", "prefill[1]"])],
)
def test_the_kv_ports_of_the_page_of_0_11_are_refused(inventory, listening):
    content = raw(inventory)
    for instance, port in zip((*content["prefill"], *content["decode"]), (30000, 30100, 30200), strict=True):
        instance["kv_port"] = port
    with pytest.raises(PlanError) as caught:
        plan(content)
    errors = [problem for problem in caught.value.problems if problem.severity == "error"]
    assert {(problem.rule, problem.where) for problem in errors} == {
        ("port-in-pool", f"{where}.kv_port") for where in listening
    }
    for problem in errors:
        assert "20000-36000" in problem.message
        # the nearest value whose ports are clear on every host of the instance
        free = {"decode[0]": 19968}.get(problem.where.partition(".")[0], 19984)
        assert f" to {free}," in problem.fix
    warned = [problem for problem in caught.value.problems if problem.severity == "warning"]
    assert {(problem.rule, problem.where) for problem in warned} == {
        ("port-in-nodeport-range", f"{where}.kv_port") for where in listening
    }


# ---- 2P1D on four A3 servers as the page of 0.23.0 prints it, one process a rank:
# v0.23.0 docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md, non-layerwise


def page_of_0_23(instance: str, host: str, head: str, rank: int, local: int) -> tuple[Raw, Raw]:
    """What its template becomes when launch_online_dp.py calls it for a rank."""
    prefill = instance.startswith("p")
    config = {
        "kv_connector": "MooncakeConnectorV1",
        "kv_role": "kv_producer" if prefill else "kv_consumer",
        "kv_port": {"p1": "36000", "p2": "36100", "d1": "36200"}[instance],
        "kv_connector_extra_config": {
            "prefill": {"dp_size": 2, "tp_size": 8},
            "decode": {"dp_size": 32, "tp_size": 1},
        },
    }
    arguments: Raw = {
        "model": "/path_to_weight/DeepSeek-r1_w8a8_mtp",
        "--host": "0.0.0.0",
        "--port": str(7100 + local),
        "--data-parallel-size": "2" if prefill else "32",
        "--data-parallel-rank": str(rank),
        "--data-parallel-address": head,
        "--data-parallel-rpc-port": "12321",
        "--tensor-parallel-size": "8" if prefill else "1",
        "--enable-expert-parallel": True,
        "--seed": "1024",
        "--served-model-name": "ds_r1",
        "--max-model-len": "40000",
        "--max-num-batched-tokens": "16384" if prefill else "256",
        "--max-num-seqs": "8" if prefill else "40",
        "--trust-remote-code": True,
        "--gpu-memory-utilization": "0.9" if prefill else "0.94",
        "--quantization": "ascend",
        "--no-enable-prefix-caching": True,
        "--speculative-config": {"num_speculative_tokens": 1, "method": "deepseek_mtp"},
        "--additional-config": {"enable_shared_expert_dp": True}
        if prefill
        else {
            "recompute_scheduler_enable": True,
            "multistream_overlap_shared_expert": True,
            "finegrained_tp_config": {"lmhead_tensor_parallel_size": 16},
        },
        "--kv-transfer-config": config,
    }
    arguments |= (
        {"--enforce-eager": True} if prefill else {"--compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}
    )
    width = 8 if prefill else 1
    environment = {
        "HCCL_IF_IP": host,
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HCCL_SOCKET_IFNAME": "eth0",
        "OMP_PROC_BIND": "false",
        "OMP_NUM_THREADS": "10",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
        "HCCL_BUFFSIZE": "256" if prefill else "600",
        "TASK_QUEUE_ENABLE": "1",
        "HCCL_OP_EXPANSION_MODE": "AIV",
        "VLLM_USE_V1": "1",
        "ASCEND_RT_VISIBLE_DEVICES": ",".join(str(local * width + index) for index in range(width)),
    }
    return arguments, environment


# launch_online_dp.py on each server: instance, address, address of the head, --dp-rank-start, --dp-size-local
LAUNCHED = (
    ("p1", "192.0.2.1", "192.0.2.1", 0, 2),
    ("p2", "192.0.2.2", "192.0.2.2", 0, 2),
    ("d1", "192.0.2.3", "192.0.2.3", 0, 16),
    ("d1", "192.0.2.4", "192.0.2.3", 16, 16),
)


def test_2p1d_a3_external_starts_what_the_page_of_0_23_prints():
    made = engines(plan(raw("ascend_2p1d_a3_external")))
    assert len(made) == 36
    for instance, host, head, start, count in LAUNCHED:
        for local in range(count):
            process = made[f"{instance}-{start + local}"]
            page, variables = page_of_0_23(instance, host, head, start + local, local)
            given = options(process["unit"]["argv"])
            config, printed = given.pop("--kv-transfer-config"), page.pop("--kv-transfer-config")
            assert differences(page, given) == {
                # each process listens on the address by which its peers know it, not on every one of the host
                "--host": ("0.0.0.0", host),
                # a stop lets requests end; vLLM has it since 0.18
                "--shutdown-timeout": (None, "20"),
            }
            # out of the kernel's ephemeral range; this Mooncake draws from 20000-21600 only
            port = {"p1": 22000, "p2": 22100, "d1": 22200}[instance]
            assert differences(printed, config) == {"kv_port": (printed["kv_port"], port)}
            environment = dict(process["unit"]["environment"])
            assert environment.pop("MOONCAKE_PD_GROUP")
            assert differences(variables, environment) == {
                # the page leaves it to the shell's profile, which a unit does not read
                "LD_LIBRARY_PATH": (None, environment["LD_LIBRARY_PATH"]),
                # 600 seconds do not do for these weights
                "VLLM_ENGINE_READY_TIMEOUT_S": (None, "3600"),
                # nothing reads it any more
                "VLLM_USE_V1": ("1", None),
                "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": (None, "480"),
                **{added: (None, environment[added]) for added in ADDED_VARIABLES},
            }


def test_2p1d_a3_external_has_the_endpoints_of_the_page():
    made = plan(raw("ascend_2p1d_a3_external"))
    urls = {name: [endpoint.url for endpoint in made.endpoints[name]] for name in made.endpoints}
    assert urls == {
        "p1": ["http://192.0.2.1:7100", "http://192.0.2.1:7101"],
        "p2": ["http://192.0.2.2:7100", "http://192.0.2.2:7101"],
        "d1": [f"http://192.0.2.{host}:{7100 + local}" for host in (3, 4) for local in range(16)],
    }
    assert made.cluster()["router"]["url"] == "http://192.0.2.1:1999"


def test_the_kv_ports_of_the_page_of_0_23_are_reported():
    content = raw("ascend_2p1d_a3_external")
    for instance, port in zip((*content["prefill"], *content["decode"]), (36000, 36100, 36200), strict=True):
        instance["kv_port"] = port
    warned = plan(content).warnings
    assert {(problem.rule, problem.where) for problem in warned} == {
        ("port-in-ephemeral-range", "prefill[0].kv_port"),
        ("port-in-ephemeral-range", "prefill[1].kv_port"),
    }
    content["mooncake"]["version"] = "0.3.7.post2"
    with pytest.raises(PlanError) as caught:
        plan(content)
    # the table of the page says 36000 or more for this Mooncake, whose last device may draw 36000 itself
    assert [(p.rule, p.where) for p in caught.value.problems if p.severity == "error"] == [
        ("port-in-pool", "prefill[0].kv_port")
    ]
