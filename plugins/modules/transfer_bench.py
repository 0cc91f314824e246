# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transfer_bench
short_description: Measure bandwidth and latency of transfers from another host
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Reads memory of a host on which M(mooncake.pd.transfer_target) has started targets, with Mooncake's
    C(transfer_engine_bench), C(ib_write_bw) and C(ib_write_lat), one after the other.
  - Each tool runs as a transient systemd unit with a limit of time, so nothing is left behind when Ansible ends.
  - Does not fail when something cannot be measured; RV(bench.results) says why, for a report over all pairs of hosts.
  - In check mode nothing is measured.
options:
  peer:
    description: Host to measure against. What it has started is taken from the variable O(register) of that host.
    type: str
    required: true
  register:
    description: Variable in which the result of M(mooncake.pd.transfer_target) was registered on all hosts.
    type: str
    default: __baseline_target
  target:
    description: RV(mooncake.pd.transfer_target#module:target) of the peer; filled in from O(register).
    type: dict
    default: {}
  path:
    description:
      - Python environment in which Mooncake is installed, or C(transfer_engine_bench) itself where it was built.
    type: path
    required: true
  address:
    description: Address of this host.
    type: str
    required: true
  devices:
    description: RDMA devices to use. Empty for all with an active port.
    type: list
    elements: str
    default: []
  block_size:
    description: Bytes of one request, for the bandwidth.
    type: int
    default: 1048576
  batch_size:
    description: Requests that are sent together, for the bandwidth.
    type: int
    default: 16
  threads:
    description: Threads that send, for the bandwidth.
    type: int
    default: 4
  duration:
    description: Seconds of each measurement.
    type: int
    default: 2
  rounds:
    description: How often each is measured. The best counts, as other load only makes it worse.
    type: int
    default: 3
  timeout:
    description: Seconds after which a tool that has not ended is ended, beyond O(duration).
    type: int
    default: 30
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
  - The latency is that of one request of 4 KiB at a time, from asking for it to having it.
"""

EXAMPLES = r"""
- name: Measure against another host
  mooncake.pd.transfer_bench:
    peer: d1
    register: target
    path: /opt/mooncake-pd/engine
    address: "{{ pd_host.address }}"
  become: true
  throttle: 1
  register: measured
"""

RETURN = r"""
bench:
  description: What was measured.
  returned: always
  type: dict
  contains:
    peer:
      description: The other host.
      type: str
    results:
      description: One entry for each tool that measured, or could not.
      type: list
      elements: dict
      contains:
        plane:
          description: V(tcp), V(rdma) or V(perftest).
          type: str
        tool:
          description: Program that measured.
          type: str
        bandwidth:
          description: Bytes a second. V(null) when it was not measured.
          type: float
        latency:
          description: Seconds. V(null) when it was not measured.
          type: float
        settings:
          description: Sizes; only figures of the same sizes can be compared.
          type: dict
        problem:
          description: Why it was not measured. Empty when it was.
          type: str
        optional:
          description: Whether it may be missing.
          type: bool
"""

from shutil import which
from typing import Any, Dict, List, Optional, Tuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import perftest, transfer_bench
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units

Result = Dict[str, Any]


def entry(plane: str, tool: str, **told: Any) -> Result:
    blank: Result = {"bandwidth": None, "latency": None, "settings": {}, "problem": "", "optional": False}
    return {"plane": plane, "tool": tool, **blank, **told}


class Bench:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: Dict[str, Any] = module.params

    def measure(self, plane: str, target: Dict[str, Any]) -> List[Result]:
        tool = "perftest" if plane == "perftest" else "transfer_engine_bench"
        if target["problem"]:
            problem = f"on {self.params['peer']}: {target['problem']}"
            return [entry(plane, tool, problem=problem, optional=target["optional"])]
        return self._perftest(target["servers"]) if plane == "perftest" else [self._engine(plane, target["segment"])]

    def _engine(self, plane: str, segment: str) -> Result:
        result = entry(plane, "transfer_engine_bench")
        devices = [] if plane == "tcp" else [name for name, _gid in units.active_devices(self.params["devices"])]
        if plane == "rdma" and not devices:
            return {**result, "problem": "there is no RDMA device with an active port"}
        binary = transfer_bench.program(self.params["path"])
        if not binary:
            return {**result, "problem": f"{self.params['path']} holds no transfer_engine_bench"}
        sizes = transfer_bench.Sizes(self.params["block_size"], self.params["batch_size"], self.params["threads"])
        seconds = self.params["duration"]
        rounds = self.params["rounds"]
        result["settings"] = {**sizes.as_dict(), "duration": seconds, "rounds": rounds}
        bandwidths: List[float] = []
        latencies: List[float] = []
        for each in [sizes, transfer_bench.LATENCY] * rounds:
            ports = units.free_ports(self.params, transfer_bench.PORTS, self.params["claims"])
            if not ports:
                return {**result, "problem": units.no_ports(self.params)}
            command = transfer_bench.initiator_command(
                binary, self.params["address"], plane, devices, segment=segment, sizes=each, duration=seconds
            )
            code, text = self._run(command, transfer_bench.port_environment(ports[0], ports[-1]))
            told = transfer_bench.parse_completed(text, each)
            # a failed transfer ends it with 1; a figure that comes all the same would be of nothing
            if code != 0 or told is None:
                return {**result, "problem": f"it ended with {code}: {transfer_bench.complaint(text)}"}
            (bandwidths if each is sizes else latencies).append(told[0 if each is sizes else 1])
        # what else goes on can only make them worse
        return {**result, "bandwidth": max(bandwidths), "latency": min(latencies)}

    def _perftest(self, servers: Dict[str, int]) -> List[Result]:
        devices = units.active_devices(self.params["devices"])
        results = []
        for tool, port in servers.items():
            result = entry("perftest", tool, settings=perftest.settings(tool), optional=True)
            path = which(tool, path=units.SEARCHED)
            if not devices or not path:
                lack = f"{tool} is not installed" if devices else "there is no RDMA device with an active port"
                results.append({**result, "problem": lack})
                continue
            device, gid_index = devices[0]
            command = perftest.command(
                tool, path, device=device, port=port, gid_index=gid_index, server=self.params["target"]["address"]
            )
            code, text = self._run(command, {})
            figure = perftest.parse(tool, text)
            if code != 0 or figure is None:
                said = transfer_bench.complaint(text)
                results.append({**result, "problem": f"it ended with {code}: {said}", "optional": False})
            else:
                results.append({**result, "bandwidth" if tool == perftest.BANDWIDTH else "latency": figure})
        return results

    def _run(self, command: List[str], environment: Dict[str, str]) -> Tuple[Optional[int], str]:
        """Exit code and everything that it said."""
        limit = self.params["duration"] + self.params["timeout"]
        argv = units.words(units.BENCH, command, self.params, environment=environment, seconds=limit, wait=True)
        code, out, err = self.module.run_command(argv)
        return code, out + err


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **units.ARGUMENTS,
            "peer": {"type": "str", "required": True},
            "register": {"type": "str", "default": "__baseline_target"},
            "target": {"type": "dict", "default": {}},
            "path": {"type": "path", "required": True},
            "address": {"type": "str", "required": True},
            "block_size": {"type": "int", "default": 1048576},
            "batch_size": {"type": "int", "default": 16},
            "threads": {"type": "int", "default": 4},
            "duration": {"type": "int", "default": 2},
            "rounds": {"type": "int", "default": 3},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    target = module.params["target"]
    results: List[Result] = []
    if not module.check_mode:
        bench = Bench(module)
        if not target:
            results = [entry("tcp", "transfer_engine_bench", problem=f"{module.params['peer']} has started no target")]
        for plane, told in target.get("planes", {}).items():
            results += bench.measure(plane, told)
    module.exit_json(changed=False, bench={"peer": module.params["peer"], "results": results})


if __name__ == "__main__":
    main()
