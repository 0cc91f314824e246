# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transfer_target
short_description: Start and stop what other hosts measure transfers against
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Starts a target of Mooncake's C(transfer_engine_bench), and servers of C(ib_write_bw) and C(ib_write_lat), as
    transient systemd units that end by themselves after O(runtime).
  - Their ports lie in no claim of the plan and are bound for a moment before, so they take none that is in use.
  - Does not fail when a target cannot be started; RV(target.planes) says why, for a report over all hosts.
options:
  state:
    description: V(stopped) ends all units that this module starts, and forgets them.
    type: str
    choices: [started, stopped]
    default: started
  planes:
    description:
      - What to start. V(tcp) and V(rdma) are Mooncake's, V(perftest) are servers of perftest.
      - V(perftest) is left out, and no failure, where there is no RDMA device or no perftest.
    type: list
    elements: str
    choices: [tcp, rdma, perftest]
    default: [tcp]
  path:
    description:
      - Python environment in which Mooncake is installed, or C(transfer_engine_bench) itself where it was built.
    type: path
  address:
    description: Address of this host that others connect to.
    type: str
  devices:
    description: RDMA devices to use. Empty for all with an active port.
    type: list
    elements: str
    default: []
  buffer_size:
    description: Bytes of memory that are read by others.
    type: int
    default: 268435456
  runtime:
    description: Seconds after which the units end by themselves.
    type: int
    default: 900
  timeout:
    description: Seconds until a target has to listen.
    type: int
    default: 20
extends_documentation_fragment: mooncake.pd.transfer
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)).
"""

EXAMPLES = r"""
- name: Start a target
  mooncake.pd.transfer_target:
    planes: [tcp]
    path: /opt/mooncake-pd/engine
    address: "{{ pd_host.address }}"
    claims: "{{ pd_host.processes | map(attribute='claims.ports') | flatten }}"
  become: true
  register: target

- name: Stop it
  mooncake.pd.transfer_target:
    state: stopped
  become: true
"""

RETURN = r"""
target:
  description: What was started.
  returned: when O(state) is V(started)
  type: dict
  contains:
    address:
      description: Address of this host.
      type: str
    planes:
      description:
        - Each plane with C(problem) (empty when it was started), C(optional) (whether it may be left out) and what
          M(mooncake.pd.transfer_bench) needs, such as C(segment).
      type: dict
      sample: {tcp: {problem: "", optional: false, segment: "192.0.2.21:18502"}}
stopped:
  description: Units that were there and are not any more.
  returned: when O(state) is V(stopped)
  type: list
  elements: str
"""

import os
import time
from shutil import which
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import perftest, sockets, systemd, transfer_bench
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units

# from listening to having its memory ready, about which it does not say a word
SETTLE = 0.5


class Targets:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: Dict[str, Any] = module.params
        self.taken: List[Dict[str, int]] = list(self.params["claims"])

    def start(self, plane: str) -> Dict[str, Any]:
        if plane == "perftest":
            return self._perftest()
        devices = [] if plane == "tcp" else [name for name, _gid in units.active_devices(self.params["devices"])]
        if plane == "rdma" and not devices:
            return problem("there is no RDMA device with an active port")
        binary = transfer_bench.program(self.params["path"])
        if not binary:
            return problem(f"{self.params['path']} holds no transfer_engine_bench, which Mooncake's wheel brings")
        ports = self._ports(transfer_bench.PORTS)
        if not ports:
            return problem(units.no_ports(self.params))
        command = transfer_bench.target_command(
            binary, self.params["address"], plane, devices, self.params["buffer_size"]
        )
        failure = self._run(plane, command, transfer_bench.port_environment(ports[0], ports[-1]))
        return problem(failure) if failure else self._listening(plane)

    def _ports(self, count: int) -> range:
        found = units.free_ports(self.params, count, self.taken)
        if not found:
            return range(0)
        self.taken.append({"first": found[0], "last": found[-1]})
        return found

    def _run(self, name: str, command: List[str], environment: Dict[str, str]) -> str:
        """Starts a transient unit; the reason when it cannot be started."""
        units.forget(self.module.run_command, [units.unit(name)])
        argv = units.words(
            name, command, self.params, environment=environment, seconds=self.params["runtime"], wait=False
        )
        return units.begin(self.module.run_command, argv)

    def _listening(self, plane: str) -> Dict[str, Any]:
        name = units.unit(plane)
        until = time.monotonic() + self.params["timeout"]
        while True:
            running = systemd.show(self.module.run_command, [name])[name].running
            text = units.read(units.log(plane))
            segment = transfer_bench.parse_listening(text)
            if not running:
                return problem(f"the target ended: {transfer_bench.complaint(text)}")
            if segment and listens(segment):
                time.sleep(SETTLE)
                return {"problem": "", "optional": False, "segment": segment}
            if time.monotonic() > until:
                said = transfer_bench.complaint(text)
                return problem(f"the target does not listen after {self.params['timeout']} s: {said}")
            time.sleep(0.1)

    def _perftest(self) -> Dict[str, Any]:
        """Both servers. Without devices or tools there is nothing to measure, which is no fault."""
        devices = units.active_devices(self.params["devices"])
        if not devices:
            return problem("there is no RDMA device with an active port", optional=True)
        paths = {tool: which(tool, path=units.SEARCHED) for tool in perftest.TOOLS}
        missing = [tool for tool, path in paths.items() if not path]
        if missing:
            return problem(f"{' and '.join(missing)} of perftest are not installed", optional=True)
        device, gid_index = devices[0]
        servers: Dict[str, int] = {}
        for tool, path in paths.items():
            ports = self._ports(1)
            if not ports:
                return problem(units.no_ports(self.params))
            command = perftest.command(tool, str(path), device=device, port=ports[0], gid_index=gid_index)
            failure = self._run(tool, perftest.serve(command), {})
            if failure:
                return problem(failure)
            servers[tool] = ports[0]
        return {"problem": "", "optional": True, "servers": servers}


def problem(text: str, optional: bool = False) -> Dict[str, Any]:
    return {"problem": text, "optional": optional}


def listens(segment: str) -> bool:
    port = int(segment.rpartition(":")[2])
    rows, _bad = sockets.tables(ports={port})
    return bool(sockets.listeners(rows, port))


def stop(module: AnsibleModule) -> List[str]:
    found = units.there(units.end(module.run_command, [units.unit(name) for name in units.NAMES], module.check_mode))
    if not module.check_mode:
        for name in units.NAMES:
            if os.path.exists(units.log(name)):
                os.unlink(units.log(name))
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **units.ARGUMENTS,
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "planes": {
                "type": "list",
                "elements": "str",
                "choices": ["tcp", "rdma", "perftest"],
                "default": ["tcp"],
            },
            "buffer_size": {"type": "int", "default": 268435456},
            "runtime": {"type": "int", "default": 900},
            "timeout": {"type": "int", "default": 20},
        },
        required_if=[("state", "started", ["path", "address"])],
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "stopped":
            stopped = stop(module)
            module.exit_json(changed=bool(stopped), stopped=stopped)
        targets = Targets(module)
        planes = {} if module.check_mode else {plane: targets.start(plane) for plane in module.params["planes"]}
    except systemd.SystemdError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, target={"address": module.params["address"], "planes": planes})


if __name__ == "__main__":
    main()
