# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module router_worker on a cluster of stand-ins, as if this machine were the router host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import router_look, router_rotation, systemd
from ansible_collections.mooncake.pd.plugins.modules import router_worker
from ansible_collections.mooncake.pd.tests.sim.router.harness import PD_ROUTER, Cluster

Answer = dict[str, Any]
RunModule = Callable[..., Answer]


class Rotation:
    """The module before a cluster of stand-ins."""

    kind = "vllm_router"

    def __init__(
        self, cluster: Cluster, run_module: RunModule, patch: pytest.MonkeyPatch, watcher: bool = True
    ) -> None:
        self.cluster = cluster
        self._run = run_module
        unit = systemd.Unit(name=router_rotation.WATCHER, ActiveState="active" if watcher else "inactive")
        patch.setattr(router_worker, "OUT", str(cluster.out_file))
        patch.setattr(router_worker, "SETTLE", 1)
        patch.setattr(router_rotation, "LAUNCHER", str(PD_ROUTER))
        patch.setattr(systemd, "show", lambda run, names: dict.fromkeys(names, unit))
        patch.setattr(router_look, "runtime", lambda name: str(cluster.directory / name))

    def run(self, state: str, *names: str, **options: Any) -> Answer:
        routers = [
            {"name": router.name, "address": "127.0.0.1", "port": port}
            for router, port in zip(self.cluster.routers, self.cluster.ports, strict=True)
        ]
        given = {"names": list(names)} if names else {}
        quick = {"settle": 0.2, "drain_timeout": 10, "kv_timeout": 2, "ready_timeout": 120}
        common = {"kind": self.kind, "routers": routers, "instances": self.cluster.rows()}
        return self._run(router_worker, **{**common, **quick, "state": state, **given, **options})

    def workers(self) -> list[set[str]]:
        return self.cluster.workers()

    @property
    def starts(self) -> list[int]:
        return [router.starts for router in self.cluster.routers]
