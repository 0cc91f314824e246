# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: npu_info
short_description: Tell the Ascend NPUs of a host, who uses them, and what is installed for them
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks C(npu-smi) for the NPUs, their health and memory, the processes on them and, on A3, the superpod.
  - Reads the versions of driver, firmware and CANN, the device nodes and C(/etc/hccn.conf).
  - What cannot be found out is named in RV(npu.unknown) with the reason. It never counts as good.
  - Only reads. A tool that hangs costs O(timeout) once and is killed; a file of a dead mount, or a process that hangs
    in the kernel, costs no more.
options:
  timeout:
    description: Seconds for all that C(npu-smi) is asked and for all files that are read, together.
    type: float
    default: 10
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)). C(npu-smi) answers others only in part.
  - C(npu-smi) is looked for in C(PATH), C(/usr/local/bin), C(/usr/local/sbin) and C(/usr/local/Ascend/driver/tools).
"""

EXAMPLES = r"""
- name: Look at the NPUs
  mooncake.pd.npu_info:
  become: true
  register: look

- name: Stop when a NPU is not well
  ansible.builtin.assert:
    that: look.npu.chips | rejectattr('health', 'eq', 'OK') | length == 0
"""

RETURN = r"""
npu:
  description: The NPUs and what belongs to them.
  returned: always
  type: dict
  contains:
    tool:
      description: C(path) and C(version) of C(npu-smi); null when there is none.
      type: dict
      sample: {path: /usr/local/bin/npu-smi, version: 25.5.0}
    chips:
      description: The NPUs. On A3 each of the two chips of a card is one.
      type: list
      elements: dict
      contains:
        id:
          description: Number over the whole host, as C(hccn_tool -i) and C(ASCEND_RT_VISIBLE_DEVICES) count.
          type: int
        card:
          description: Number of the card, which C(npu-smi) calls NPU.
          type: int
        chip:
          description: Number of the chip on its card.
          type: int
        phy_id:
          description: Physical number.
          type: int
        name:
          description: Name as C(npu-smi) has it.
          type: str
          sample: 910B3
        health:
          description: V(OK), V(Warning), V(Alarm), V(Critical), or what else the tool says.
          type: str
        bus_id:
          description: PCI address; null where the tool has none.
          type: str
        aicore:
          description: Use of the AI cores in percent.
          type: int
        hbm_used:
          description: Used memory in bytes. About 3 GB are in use on an idle NPU.
          type: int
        hbm_total:
          description: Memory in bytes.
          type: int
        temperature:
          description: Degrees Celsius.
          type: int
        power:
          description: Watts; null where the tool shows a dash, as for the second chip of a card.
          type: float
    processes:
      description: The processes on the NPUs. One that uses several NPUs is there several times.
      type: list
      elements: dict
      contains:
        chip:
          description: The RV(npu.chips[].id) of the NPU.
          type: int
        pid:
          description: Process id on the host.
          type: int
        name:
          description: Name as C(npu-smi) has it, which may be cut or empty.
          type: str
        memory:
          description: Memory on the NPU in bytes.
          type: int
        container_pid:
          description: Process id in its container; null where the tool does not tell it.
          type: int
        command:
          description: Command line; null when the process is not to be seen here.
          type: str
        user:
          description: Its user; null likewise.
          type: str
        unit:
          description: Its systemd unit; null when there is none.
          type: str
        container:
          description: Short id of its container; null when there is none.
          type: str
    driver:
      description: C(version) of the driver, and C(path) of what told it.
      type: dict
      sample: {version: 25.5.0, path: /usr/local/Ascend/driver/version.info}
    firmware:
      description: C(version) of the firmware, and C(path) of what told it.
      type: dict
    cann:
      description: The installed packages of CANN (toolkit, kernels, nnal); empty when there are none.
      type: list
      elements: dict
      contains:
        path:
          description: Folder of the release.
          type: str
        package:
          description: Name of the package.
          type: str
          sample: Ascend-cann-toolkit
        version:
          description: Its version.
          type: str
          sample: 8.5.0
        arch:
          description: Architecture; null where no file names it.
          type: str
        set_env:
          description: Path of the C(set_env.sh) that belongs to it; null when there is none.
          type: str
    devices:
      description: Device nodes; null when they are unknown.
      type: dict
      contains:
        davinci:
          description: Numbers of C(/dev/davinciN).
          type: list
          elements: int
        manager:
          description: C(/dev/davinci_manager) with C(path), C(exists), C(mode), C(owner), C(group).
          type: dict
        devmm_svm:
          description: C(/dev/devmm_svm), likewise.
          type: dict
        hisi_hdc:
          description: C(/dev/hisi_hdc), likewise.
          type: dict
        group:
          description: The group of all of them; null when there is none or they differ.
          type: str
        members:
          description: Users in that group as the host's user database lists them.
          type: list
          elements: str
    hccn_conf:
      description: What stands in C(/etc/hccn.conf), by the number of the NPU as text.
      type: dict
      contains:
        type:
          description: V(file), V(directory) or V(missing).
          type: str
        crlf:
          description: Whether it has carriage returns.
          type: bool
        addresses:
          description: Values of C(address_N).
          type: dict
          sample: {"0": 198.51.100.10}
        netmasks:
          description: Values of C(netmask_N).
          type: dict
        gateways:
          description: Values of C(gateway_N).
          type: dict
        netdetect:
          description: Values of C(netdetect_N).
          type: dict
        tls:
          description: Values of C(tls_enable_N).
          type: dict
        repeated:
          description: Keys that stand there more than once.
          type: list
          elements: str
        bad_lines:
          description: Lines that are not understood, with C(line) and C(text).
          type: list
          elements: dict
        empty:
          description: Keys without a value.
          type: list
          elements: str
    superpod:
      description: Where the NPUs of an A3 are in their superpod; empty elsewhere.
      type: list
      elements: dict
      contains:
        chip:
          description: The RV(npu.chips[].id) of the NPU.
          type: int
        superpod:
          description: Number of the superpod.
          type: int
        sdid:
          description: Number of the NPU in the superpod.
          type: int
        size:
          description: How many NPUs the superpod may have.
          type: int
        server_index:
          description: Number of the host in the superpod.
          type: int
    generation:
      description: V(A2), V(A3) or V(A5), by the names of the NPUs and the form of the table.
      type: str
    unknown:
      description:
        - What could not be found out. C(what) is the path of the fact below RV(npu), or of what it is a part of;
          C(why) is the reason, C(raw) what was there instead.
      type: list
      elements: dict
"""

import time
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import cann, hccn_conf, npu_host, npu_smi, procs
from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer, Runner
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Job, Late
from ansible_collections.mooncake.pd.plugins.module_utils.unknown_entries import Unknown, spans

ROOT = "/"
TOOL_FOLDERS = npu_host.TOOL_FOLDERS
Part = tuple[Optional[dict[str, str]], str, str]  # of cann.part
_AT_ONCE = 8  # the driver serves one after the other
_SECONDS = 2.0  # for the command lines of all processes


_NO_FILES: dict[str, Any] = {
    "cann": ([], []),
    "devices": None,
    "hccn_conf": (hccn_conf.nothing(None), ""),
    **dict.fromkeys(("driver", "firmware"), (None, "", "")),
}


class Look:
    """Commands and files have one deadline: that of the runner. A dead mount holds up who reads from it."""

    def __init__(self, runner: Runner, tool: Optional[str], no_tool: str = "") -> None:
        self.runner = runner
        self.tool = tool
        self.no_tool = no_tool or f"npu-smi is neither in PATH nor in {', '.join(TOOL_FOLDERS)}"
        self.unknown = Unknown()
        self.files = cann.Files(ROOT)

    def facts(self) -> dict[str, Any]:
        reads = {
            "cann": Job(lambda: cann.toolkits(self.files)),
            "devices": Job(lambda: npu_host.devices(self.files.real("/dev"))),
            "hccn_conf": Job(lambda: hccn_conf.read(self.files.real(hccn_conf.PATH))),
            "driver": Job(lambda: cann.part(self.files, "driver")),
            "firmware": Job(lambda: cann.part(self.files, "firmware")),
        }
        found = self._overview()
        generation = npu_smi.generation(found.chips)
        if generation is None:
            names = ", ".join(sorted({str(chip["name"]) for chip in found.chips}))
            why = f"NPUs called {names} are of no generation that is known here" if names else "no NPU is known"
            self.unknown.add("generation", why)
        superpod = self._superpod(found.chips, generation)
        processes = self._processes(found.processes)
        read = {name: self._read(name, job) for name, job in reads.items()}
        packages, problems = read["cann"]
        for _folder, why in problems:
            self.unknown.add("cann", why)
        conf, why = read["hccn_conf"]
        if why:
            self.unknown.add("hccn_conf", why)
        parts: dict[str, Part] = {name: read[name] for name in ("driver", "firmware")}
        board = self._board(found.chips, parts)
        return {
            "tool": {"path": self.tool, "version": found.version} if self.tool else None,
            "chips": found.chips,
            "processes": processes,
            "driver": self._part("driver", parts, board, "software version"),
            "firmware": self._part("firmware", parts, board, "firmware version"),
            "cann": packages,
            "devices": read["devices"],
            "hccn_conf": conf,
            "superpod": superpod,
            "generation": generation,
            "unknown": self.unknown.entries,
        }

    @property
    def _deadline(self) -> float:
        return time.monotonic() + self.runner.left

    def _read(self, what: str, job: Job) -> Any:
        try:
            return job.result(self._deadline)
        except Late:
            self.unknown.add(what, "its files could not be read in the time of the module: a mount is dead, or slow")
        except OSError as error:
            self.unknown.add(what, f"{error.filename} cannot be read: {error.strerror}")
        return _NO_FILES[what]

    def _overview(self) -> npu_smi.Overview:
        if not self.tool:
            self.unknown.add("tool", self.no_tool)
            self.unknown.add("chips", "there is no npu-smi")
            self.unknown.add("processes", "there is no npu-smi")
            return npu_smi.Overview()
        table, mapped, version = self.runner.run([self._ask(), self._ask("-m"), (self.tool, "-v")])
        known_version = npu_smi.version(table.text) or npu_smi.version(version.text)
        why = npu_smi.refusal(table.text) or _ended(table)
        if why:
            self.unknown.add("chips", why, table.text)
            self.unknown.add("processes", why)
            found = npu_smi.Overview()
        else:
            found = npu_smi.overview(table.text)
            for what, reason in found.problems:
                self.unknown.add(what, reason, table.text)
            npu_smi.number(found, {} if _ended(mapped) else npu_smi.mapping(mapped.text))
        found.version = known_version
        if known_version is None:
            self.unknown.add("tool.version", "npu-smi does not name its version", version.text)
        nameless = [chip["id"] for chip in found.chips if chip["phy_id"] is None]
        if nameless:
            why = _ended(mapped) or "npu-smi info -m printed no table that is understood"
            self.unknown.add("chips", f"phy_id of {spans(nameless)}: {why}", mapped.text)
        return found

    def _ask(self, *words: object) -> tuple[str, ...]:
        return (str(self.tool), "info", *map(str, words))

    def _superpod(self, chips: list[dict[str, Any]], generation: Optional[str]) -> list[dict[str, Any]]:
        if generation is None:
            self.unknown.add("superpod", "the generation is not known")
        if generation != "A3":
            return []
        asked = [self._ask("-t", "spod-info", "-i", chip["card"], "-c", chip["chip"]) for chip in chips]
        found = []
        failed: dict[str, list[int]] = {}
        texts: dict[str, str] = {}
        for chip, answer in zip(chips, self.runner.run(asked)):
            why = npu_smi.refusal(answer.text) or _ended(answer)
            told = npu_smi.superpod("" if why else answer.text)
            missing = [name for name, value in told.items() if value is None]
            if missing:
                why = why or f"npu-smi info -t spod-info does not tell {', '.join(missing)}"
                failed.setdefault(why, []).append(chip["id"])
                texts.setdefault(why, answer.text)
            found.append({"chip": chip["id"], **told})
        for why, ids in failed.items():
            self.unknown.add("superpod", f"NPU {spans(ids)}: {why}", texts[why])
        return found

    def _board(self, chips: list[dict[str, Any]], parts: dict[str, Part]) -> dict[str, str]:
        """Versions as the tool tells them, for a container that has no files of the driver."""
        if all(part[0] for part in parts.values()) or not chips:
            return {}
        answer = self.runner.run([self._ask("-t", "board", "-i", chips[0]["card"])])[0]
        return {} if npu_smi.refusal(answer.text) or _ended(answer) else npu_smi.pairs(answer.text)

    def _part(self, name: str, parts: dict[str, Part], board: dict[str, str], key: str) -> Optional[dict[str, str]]:
        known, why, raw = parts[name]
        if known is None and board.get(key, "NA") != "NA":
            return {"version": board[key], "path": str(self.tool)}
        if known is None and why:
            self.unknown.add(name, why, raw)
        return known

    def _processes(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        keys = ("chip", "pid", "name", "memory", "container_pid")
        found = []
        until = min(self._deadline, time.monotonic() + _SECONDS)
        for index, row in enumerate(rows):
            about: dict[str, Any] = dict.fromkeys(("command", "user", "unit", "container"))
            if procs.is_alive(row["pid"]):  # else gone, or of another PID namespace
                process = procs.describe(row["pid"], deadline=until)
                about.update(user=process.user, unit=process.unit, container=process.container)
                if process.late:
                    why = f"process {row['pid']} did not tell its command line in time"
                    self.unknown.add(f"processes.{index}.command", why)
                else:
                    about["command"] = process.command
            found.append({**{key: row[key] for key in keys}, **about})
        return found


def _ended(answer: Answer) -> str:
    """Why an answer is none; empty when it is one."""
    return f"{answer.name} {answer.failure}" if answer.failure else ""


def main() -> None:
    module = AnsibleModule(argument_spec={"timeout": {"type": "float", "default": 10}}, supports_check_mode=True)
    runner = Runner(module.params["timeout"], _AT_ONCE)
    tool, no_tool = None, ""
    try:
        tool = Job(lambda: npu_host.tool("npu-smi", TOOL_FOLDERS)).result(time.monotonic() + runner.left / 2)
    except Late:
        no_tool = "looking for npu-smi in PATH did not end in time: a mount is dead, or slow"
    module.exit_json(changed=False, npu=Look(runner, tool, no_tool).facts())


if __name__ == "__main__":
    main()
