# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that are well, for the tests to hurt."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import Seen

NOW = 1_800_000_000.0
WATCHER = "mooncake-pd-router-watch.service"


def unit(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "installed": True,
        "enabled": True,
        "active_state": "active",
        "running": True,
        "waits_for_restart": False,
        "result": "success",
        "since": NOW - 3900,
        "restarts": 0,
        "exit_text": None,
        "advice": None,
        "outdated": False,
        "log": f"/var/log/mooncake-pd/{name.removesuffix('.service')}.log",
        "memory": 1 << 30,
        **more,
    }


def process(name: str, kind: str, instance: str | None = None, rank: int = 0) -> dict[str, Any]:
    ranks = [rank] if instance else []
    return {
        "name": name,
        "kind": kind,
        "instance": instance,
        "ranks": ranks,
        "unit": {"name": f"mooncake-pd-{name}.service"},
    }


def server(url: str, kind: str) -> dict[str, Any]:
    tokens = {"external_kv_transfer": 1234 if kind == "decode" else 0, "local_compute": 0 if kind == "decode" else 1234}
    return {"url": url, "healthy": True, "refused": False, "error": None, "version": "0.32.0", "prompt_tokens": tokens}


class Cluster:
    """Prefill and decode instances of some ranks, each on hosts of its own, and a control host."""

    def __init__(self, prefill: int = 1, decode: int = 1, hosts: int = 1) -> None:
        self.plans: dict[str, Any] = {"control": {"processes": []}}
        self.units: dict[str, Any] = {}
        self.running: dict[str, Any] = {}
        self.instances: list[dict[str, Any]] = []
        self.engines: list[dict[str, Any]] = []
        number = 1
        for letter, kind, count in (("p", "prefill", prefill), ("d", "decode", decode)):
            for index in range(1, count + 1):
                own = [f"npu{number + more}" for more in range(hosts)]
                number += hosts
                self._add(f"{letter}{index}", kind, own)
        services = {"router": "frontend", "router-a": "router", "router-b": "router", "master": "master"}
        self.plans["control"]["processes"] = [process(name, kind) for name, kind in services.items()]
        self.units["control"] = self._units("control", [WATCHER])
        self.workers = [
            {"url": url, "instance": item["name"], "kind": item["kind"], "healthy": True}
            for item in self.instances
            for url in item["api_urls"]
        ]
        self.routers: dict[str, Any] = {
            "out": [],
            "routers": [
                {"name": name, "ready": True, "workers": copy.deepcopy(self.workers)}
                for name in ("router-a", "router-b")
            ],
        }

    def _units(self, host: str, more: list[str] | None = None) -> dict[str, Any]:
        names = [each["unit"]["name"] for each in self.plans[host]["processes"]] + (more or [])
        return {"units": [unit(name) for name in names], "strays": []}

    def _add(self, name: str, kind: str, hosts: list[str]) -> None:
        alone = len(hosts) == 1
        for rank, host in enumerate(hosts):
            self.plans[host] = {"processes": [process(name if alone else f"{name}-{rank}", kind, name, rank)]}
            self.units[host] = self._units(host)
            self.running[host] = [
                {"unit": each["name"], "active": True, "outdated": False, "installed": True}
                for each in self.units[host]["units"]
            ]
        url = f"http://{hosts[0]}:8100"
        bootstrap = [f"http://{hosts[0]}:8998"] if kind == "prefill" else []
        item = {"name": name, "kind": kind, "hosts": hosts, "api_urls": [url], "bootstrap_urls": bootstrap}
        self.instances.append(item)
        self.engines.append(
            {
                "name": name,
                "kind": kind,
                "healthy": True,
                "running": 1,
                "waiting": 0,
                "kv_usage": 0.25,
                "engine_ids": ["e"] if bootstrap else [],
                "problems": [],
                "servers": [server(url, kind)],
            }
        )

    def unit(self, host: str, number: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.units[host]["units"][number]
        return found

    def end(self, host: str, **more: Any) -> None:
        """One process of the host does not run, and its API does not answer."""
        self.unit(host).update({"active_state": "failed", "running": False, "exit_text": "killed by SIGKILL", **more})
        for engine in self.engines:
            if host in engine["servers"][0]["url"]:
                self.sicken(engine["name"], "connection refused")

    def sicken(self, name: str, error: str) -> None:
        (engine,) = (each for each in self.engines if each["name"] == name)
        engine.update(healthy=False, running=None, waiting=None, kv_usage=None, engine_ids=[])
        engine["servers"][0].update(healthy=False, error=error, version=None, prompt_tokens=None)

    def seen(self, **more: Any) -> Seen:
        made = Seen(
            cluster={"name": "lab", "source": "/home/ops/lab/topology.yml", "router": {"host": "control"}},
            instances=self.instances,
            plans=self.plans,
            units=self.units,
            running=self.running,
            asked={"control": {name: {"ok": True, "why": ""} for name in ("router", "master")}},
            engines=self.engines,
            routers=self.routers,
            now=NOW,
        )
        return replace(made, **more)

    def lose(self, host: str, why: str) -> dict[str, str]:
        """The host is not seen; returns what to give as absent."""
        self.units.pop(host)
        self.running.pop(host, None)
        return {host: why}
