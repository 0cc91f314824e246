# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents as the planner would give them, written by hand: the report is drawn from nothing else."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import Document, start_order

Json = dict[str, Any]

POOLS = [("transfer-adxl", 20000, 20800), ("transfer-rpc", 15000, 17000)]


def claim(purpose: str, first: int, last: int | None = None, address: str = "0.0.0.0") -> Json:
    last = first if last is None else last
    return {"purpose": purpose, "address": address, "first": first, "last": last, "where": "x"}


def process(name: str, kind: str, claims: list[Json], **more: Any) -> Json:
    unit = {"name": f"mooncake-pd-{name}.service", "description": name, "argv": [], "environment": {}}
    known = {"instance": None, "where": kind, "role": None, "ranks": [], "devices": [], "unit": unit}
    return {
        "name": name,
        "kind": kind,
        **known,
        "claims": {"name": name, "unit": unit["name"], "ports": claims},
        **more,
    }


def engine(name: str, kind: str, address: str, ranks: list[int], devices: list[int], **more: Any) -> Json:
    """A process of an instance with 8 workers on a host, the first of which has the API."""
    instance = more.pop("instance", name.partition("-")[0])
    claims = []
    if more.get("role") != "headless":
        claims.append(claim("api", 7100, address=address))
    if kind == "prefill":
        claims.append(claim("kv", 30000 + 8 * ranks[0], 30007 + 8 * ranks[-1], address=address))
    return process(name, kind, claims, instance=instance, ranks=ranks, devices=devices, **{"role": "rank", **more})


def host(name: str, address: str, processes: list[Json], chips: int | None = 8) -> Json:
    drawn = [{"purpose": purpose, "first": first, "last": last} for purpose, first, last in POOLS]
    pools = drawn if any(process["devices"] for process in processes) else []
    return {"name": name, "address": address, "chips": chips, "processes": processes, "pools": pools}


def instance(name: str, kind: str, hosts: list[str], api: str, **sizes: int) -> Json:
    shape = {"dp": 1, "tp": 8, "pp": 1, "pcp": 1, "dcp": 1, **sizes}
    return {"name": name, "kind": kind, "hosts": hosts, "api_urls": [f"http://{api}:7100"], "shape": shape}


def document(hosts: list[Json], instances: list[Json], **more: Any) -> Document:
    by_name = {item["name"]: item for item in hosts}
    cluster = {
        "name": "qwen",
        "source": "/etc/pd/topology.yml",
        "engine": {"kind": "vllm_ascend", "version": "0.11.0"},
        "mooncake": {"version": "0.3.8"},
        "model": {"path": "/m", "served_name": "qwen"},
        "hardware": {"generation": "A2", "chips": 8},
        "connector": {"name": "MooncakeConnectorV1", "protocol": "ascend", "transfer": "pull", "binds": "prefill"},
        "router": None,
        "master": None,
        "instances": instances,
    }
    return {
        "schema": 1,
        "cluster": {**cluster, **more.pop("cluster", {})},
        "hosts": by_name,
        "start_order": start_order(by_name),
        "warnings": [],
        "waived": [],
        "choices": [],
        **more,
    }


def small() -> Document:
    """A prefill over two hosts, a decode on a third one, and the services beside the decode."""
    here = "192.0.2.3"
    hosts = [
        host("npu1", "192.0.2.1", [engine("p1-0", "prefill", "192.0.2.1", [0], list(range(8)), role="head")]),
        host("npu2", "192.0.2.2", [engine("p1-1", "prefill", "192.0.2.2", [1], list(range(8)), role="headless")]),
        host(
            "npu3",
            here,
            [
                engine("d1", "decode", here, [0], [0, 1, 2, 3]),
                process("master", "master", [claim("master-rpc", 17051, address=here)]),
                process("router-a", "router", [claim("router", 18001, address="127.0.0.1")]),
                process("router-b", "router", [claim("router", 18002, address="127.0.0.1")]),
                process("router", "frontend", [claim("frontend", 8000, address=here)]),
            ],
        ),
    ]
    backends = [{"name": f"router-{x}", "address": "127.0.0.1", "port": 18001 + n} for n, x in enumerate("ab")]
    return document(
        hosts,
        [
            instance("p1", "prefill", ["npu1", "npu2"], "192.0.2.1", dp=2),
            instance("d1", "decode", ["npu3"], here, tp=4),
        ],
        cluster={
            "router": {
                **{"kind": "vllm_router", "contract": "nixl", "host": "npu3", "address": here, "port": 8000},
                "backends": backends,
            },
            "master": {"host": "npu3", "address": here, "rpc_port": 17051, "metrics_port": 9003},
        },
        warnings=[
            {
                "rule": "port-in-nodeport-range",
                "where": "prefill[0].kv_port",
                "message": "30000-30015 lies in the range of NodePorts, which NAT takes without any listener.",
                "fix": "use 22000.",
                "line": 21,
            }
        ],
        waived=[
            {
                "rule": "host-unused",
                "where": "hosts.npu4",
                "message": "nothing of the plan runs there.",
                "fix": "remove the host.",
                "reason": "a spare",
            }
        ],
        choices=[
            {"where": f"{kind}[0].api_port", "value": 7100, "why": "the first port of the engine."}
            for kind in ("prefill", "decode")
        ],
    )


def large(count: int = 1000) -> Document:
    """Half of the hosts prefill, half decode, all alike."""
    hosts, instances = [], []
    for number in range(count):
        kind = "prefill" if number < count // 2 else "decode"
        name, address = f"{kind[0]}{number + 1}", f"198.18.{number // 250}.{number % 250 + 1}"
        hosts.append(host(f"npu{number + 1}", address, [engine(name, kind, address, [0], list(range(8)))]))
        instances.append(instance(name, kind, [f"npu{number + 1}"], address))
    return document(hosts, instances)


def hostile(text: str = "<b onload=x>\"'&</script><!--") -> Document:
    """Every text that comes out of a file is this one."""

    def spoil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoil(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [spoil(item, key) for item in value]
        # these the planner chooses out of its own words
        fixed = key in ("kind", "role", "transfer", "binds", "contract", "address", "purpose") or not isinstance(
            value, str
        )
        return value if fixed else f"{value}{text}"

    spoilt: Document = spoil(small())
    for own in spoilt["hosts"].values():
        for item in own["processes"]:
            item["instance"] = item["instance"] or None
    return spoilt
