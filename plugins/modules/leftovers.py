# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: leftovers
short_description: Remove what services left behind that were killed, and nothing that somebody still uses
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Removes shared memory, semaphores, sockets, temporary files and stale locks that engines and Mooncake leave in
    C(/dev/shm) and C(/tmp) when they are killed, and metadata of dead Mooncake clients when asked to. In check mode it
    only tells what it would remove.
  - A file goes only when its name is one of a leftover, it belongs to one of O(users), it is older than the last stop
    of one of O(units) or than the boot, and nobody has it open, mapped, locked or bound.
    That is looked up for all processes of the host, those in containers as well, once to judge and once more right
    before the removal; at last the kernel is asked whether somebody has it open (C(F_SETLEASE)) or listens there.
  - Some files are in use without being open (C(/tmp/vllm_dist_*)). They stay as long as a process of their user lives
    that ran when they were made.
  - Links are never followed. Data (snapshots, the SSD tier, the operation log), files that a unit names, the newest log
    of a program, files with a second name and file systems that other hosts may share are never touched.
  - Processes that outlived their unit are reported, and ended only with O(kill_orphans).
options:
  units:
    description: Names of our services on this host. Only processes of these count as orphans.
    type: list
    elements: str
    required: true
  users:
    description:
      - Users, by name or number, whose files count as ours. One that does not exist owns nothing.
      - System V objects of V(root) are never touched, they are mostly those of other programs.
    type: list
    elements: str
    required: true
  kinds:
    description:
      - What is looked for. V(log) and V(core) tell why something crashed, so they go only when they are named.
      - V(shm) are files of C(/dev/shm), V(sysv) shared memory and semaphores of System V.
    type: list
    elements: str
    choices: [shm, sysv, socket, file, lock, folder, log, core]
    default: [shm, sysv, socket, file, lock, folder]
  patterns:
    description: More names of leftovers, beside the known ones. All other conditions hold for them, too.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description:
          - An absolute path whose last part may have C(*), C(?) and C([]).
          - For V(file), names that end like a configuration, program, log or archive never match.
        type: str
        required: true
      kind:
        description: What it is.
        type: str
        required: true
        choices: [shm, socket, file, lock, folder, log, core]
  temp_dirs:
    description: Folders of temporary files, for units that have another C(TMPDIR) or C(VLLM_RPC_BASE_PATH) as well.
    type: list
    elements: path
    default: [/tmp]
  metadata:
    description:
      - Metadata of Mooncake clients. One that was killed cannot start again under its name before its keys are gone.
      - Its keys go only when the address that is stored with them refuses connections. A host that does not answer
        proves nothing.
    type: list
    elements: dict
    default: []
    suboptions:
      server:
        description: C(http://HOST:PORT/metadata) of Mooncake's own server, or C(etcd://HOST:PORT).
        type: str
        required: true
      names:
        description: Names of the clients, as they are in C(local_hostname), mostly C(HOST:PORT).
        type: list
        elements: str
        required: true
      cluster_id:
        description: The clients' C(MC_METADATA_CLUSTER_ID).
        type: str
        default: ""
  kill_orphans:
    description:
      - Whether processes of O(units) that outlived their run are ended, first with SIGTERM.
      - Not by default. The units of this collection end theirs themselves (C(KillMode=mixed)), so one that is left was
        put there by somebody or cannot be ended, and it may be what a person is looking at.
    type: bool
    default: false
  grace:
    description: Seconds between SIGTERM and SIGKILL.
    type: int
    default: 10
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
notes:
  - Needs root. When not all processes can be looked into, nothing is removed, and RV(unknown) tells why.
  - Run it on the host. In a container it sees neither the processes nor the locks of others that share its folders.
seealso:
  - module: mooncake.pd.units
"""

EXAMPLES = r"""
- name: Remove what stopped processes of this host left
  mooncake.pd.leftovers:
    units: "{{ pd_host.processes | map(attribute='unit.name') | list }}"
    users: [mooncake]

- name: Also end processes that outlived their unit, and remove old logs of glog
  mooncake.pd.leftovers:
    units: [mooncake-pd-p1.service]
    users: [mooncake]
    kinds: [shm, sysv, socket, file, lock, folder, log]
    patterns:
      - path: /var/log/mooncake/mooncake_master.*
        kind: log
    kill_orphans: true

- name: Let a client start again under the name of one that was killed
  mooncake.pd.leftovers:
    units: [mooncake-pd-p1.service]
    users: [mooncake]
    metadata:
      - server: http://192.0.2.10:8080/metadata
        names: ["192.0.2.11:12345"]
"""

RETURN = r"""
removed:
  description: What was removed; in check mode, what would be.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: Path, description of a System V object, or server and key.
      type: str
    kind:
      description: One of O(kinds), or V(metadata).
      type: str
    size:
      description: Bytes that it took.
      type: int
    age:
      description: Seconds since it was changed last; null for metadata.
      type: int
    why:
      description: What makes it a leftover.
      type: str
  sample:
    - path: /dev/shm/psm_9667b226
      kind: shm
      size: 73728
      age: 309
      why: nobody has it, and it is older than the last stop of mooncake-pd-p1.service
freed:
  description: Bytes of all of them.
  returned: always
  type: int
  sample: 73728
kept:
  description: What looks like a leftover by its name and was kept.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: As in RV(removed).
      type: str
    kind:
      description: As in RV(removed).
      type: str
    why:
      description: The first reason to keep it.
      type: str
    pid:
      description: Process that has it, or null.
      type: int
    command:
      description: Its command line, without secrets; only with a process.
      type: str
    unit:
      description: Its systemd unit, or null; only with a process.
      type: str
    container:
      description: Its container, or null; only with a process.
      type: str
orphans:
  description: Processes of O(units) that outlived their run.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: Number of the process.
      type: int
    command:
      description: Its command line, without secrets.
      type: str
    user:
      description: Its user.
      type: str
    unit:
      description: The unit that it was started by.
      type: str
    why:
      description: What makes it an orphan.
      type: str
    ended:
      description: SIGTERM or SIGKILL; null when it lives.
      type: str
unknown:
  description: What could not be found out.
  returned: always
  type: list
  elements: dict
  contains:
    what:
      description: What is not known.
      type: str
    why:
      description: Why not.
      type: str
    raw:
      description: What was there instead.
      type: str
"""

import os
import pwd
from typing import Any, Optional, Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import procs, systemd
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import metadata, orphans, patterns, unit_runs
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Evidence
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.sweep import Sweep, Swept, Wanted

SHM = "/dev/shm"
PROC = "/proc"


def numbers(users: Sequence[str]) -> list[int]:
    found = []
    for user in users:
        if user.isdigit():
            found.append(int(user))
            continue
        try:
            found.append(pwd.getpwnam(user).pw_uid)
        except KeyError:
            continue
    return found


class Leftovers:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.users = numbers(self.params["users"])
        self.orphans: list[orphans.Orphan] = []
        self.ends: dict[int, str] = {}
        self.swept = Swept()
        self.told: dict[int, procs.Process] = {}

    def run(self) -> None:
        kinds = self.params["kinds"]
        wanted = [
            *patterns.known(SHM, self.params["temp_dirs"]),
            *patterns.given(self.params["patterns"]),
        ]
        sweep = Sweep(Wanted(self.users, wanted, kinds, PROC), self._runs, self.module.check_mode)
        self.swept = sweep.run(self._settle)
        for row in self.params["metadata"]:
            self._metadata(row)
        self._tell()

    def _runs(self) -> list[unit_runs.Run]:
        return unit_runs.show(self.module.run_command, self.params["units"])

    def _settle(self, evidence: Evidence, runs: Sequence[unit_runs.Run]) -> bool:
        self.orphans = orphans.find(runs, evidence.processes, self.users, PROC)
        self.told = {one.process.pid: procs.describe(one.process.pid, PROC) for one in self.orphans}
        if self.params["kill_orphans"] and not self.module.check_mode:
            self.ends = orphans.terminate(self.orphans, self.params["grace"], PROC)
        return bool(self.ends)

    def _metadata(self, row: dict[str, Any]) -> None:
        for one in metadata.sweep(row["server"], row["names"], row["cluster_id"], self.module.check_mode):
            path = f"{one.server} {one.key}".rstrip()
            if one.state == "removed":
                self.swept.removed.append(
                    {"path": path, "kind": "metadata", "size": one.size, "age": None, "why": f"{one.why}: it is dead"}
                )
            elif one.state == "kept":
                self.swept.kept.append({"path": path, "kind": "metadata", "why": one.why, "pid": None})
            else:
                self.swept.unknown.append({"what": f"metadata {path}", "why": one.why, "raw": ""})

    def _orphan_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "pid": one.process.pid,
                "command": self.told[one.process.pid].command,
                "user": self.told[one.process.pid].user,
                "unit": one.unit,
                "why": one.why,
                "ended": self.ends.get(one.process.pid),
            }
            for one in self.orphans
        ]

    def _tell(self) -> None:
        rows = self._orphan_rows()
        left = [row for row in rows if row["ended"] is None]
        for row in left:
            self.module.warn(f"pid {row['pid']} ({row['command']}) outlived its unit: {row['why']}.")
        for entry in self.swept.unknown:
            self.module.warn(f"Leftovers: {entry['what']}: {entry['why']}")
        would_kill = self.params["kill_orphans"] and (self.ends or (self.module.check_mode and rows))
        gone = [row["path"] for row in self.swept.removed]
        self.module.exit_json(
            changed=bool(gone or would_kill),
            removed=self.swept.removed,
            freed=self.swept.freed,
            kept=self.swept.kept,
            orphans=rows,
            unknown=self.swept.unknown,
            diff={
                "before_header": "leftovers",
                "after_header": "leftovers",
                "before": "".join(f"{path}\n" for path in gone) + self._processes(rows),
                "after": "",
            },
        )

    def _processes(self, rows: Sequence[dict[str, Any]]) -> str:
        if not self.params["kill_orphans"]:
            return ""
        return "".join(
            f"pid {row['pid']} ({row['command']})\n" for row in rows if row["ended"] or self.module.check_mode
        )


def trouble(params: dict[str, Any]) -> Optional[str]:
    folders = [path for path in params["temp_dirs"] if not os.path.isabs(path)]
    if folders:
        return f"temp_dirs: {', '.join(folders)}: no absolute path"
    if params["grace"] < 0:
        return "grace: less than 0"
    servers = []
    for row in params["metadata"]:
        try:
            metadata.store(row["server"])
        except metadata.MetadataError as error:
            servers.append(f"metadata: {error}")
    return "\n".join(servers) or None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "required": True},
            "users": {"type": "list", "elements": "str", "required": True},
            "kinds": {
                "type": "list",
                "elements": "str",
                "choices": ["shm", "sysv", "socket", "file", "lock", "folder", "log", "core"],
                "default": ["shm", "sysv", "socket", "file", "lock", "folder"],
            },
            "patterns": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "path": {"type": "str", "required": True},
                    "kind": {
                        "type": "str",
                        "required": True,
                        "choices": ["shm", "socket", "file", "lock", "folder", "log", "core"],
                    },
                },
            },
            "temp_dirs": {"type": "list", "elements": "path", "default": ["/tmp"]},
            "metadata": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "server": {"type": "str", "required": True},
                    "names": {"type": "list", "elements": "str", "required": True},
                    "cluster_id": {"type": "str", "default": ""},
                },
            },
            "kill_orphans": {"type": "bool", "default": False},
            "grace": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    problem = trouble(module.params)
    if problem:
        module.fail_json(msg=problem)
    try:
        Leftovers(module).run()
    except patterns.PatternError as error:
        module.fail_json(msg=str(error))
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.")


if __name__ == "__main__":
    main()
