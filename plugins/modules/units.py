# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: units
short_description: Write, enable and start a set of systemd services in one call
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Renders C(/etc/systemd/system/NAME) for every unit, reloads systemd when something changed, enables the units and
    starts all of them at once, so that processes that wait for each other come up together.
  - A running unit is restarted when the digest of the unit file it was started from differs from that of the planned
    one. The unit itself keeps the digest in C(/run/mooncake-pd/NAME/digest), so neither a restart that a broken-off
    run still owes is forgotten nor a change by hand. Drop-ins (C(systemctl edit)) are not part of the digest.
  - With O(log_dir), each start writes C(--- mooncake-pd start unit=... invocation=... digest=...) into the log of the
    unit. M(mooncake.pd.wait_ready) and M(mooncake.pd.unit_log_info) read from there on.
  - Each start and restart begins with C(systemctl reset-failed), so that earlier ones do not count for the limit of
    starts (C(StartLimitBurst)).
  - A unit file that this module did not write is never overwritten or removed.
  - What a unit ran with is kept as C(/etc/systemd/system/NAME.previous) when another file takes its place, so that
    O(state=previous) can put it back. One that never ran is not kept.
options:
  units:
    description: The services. For O(state=absent) and O(state=previous) the name is enough.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the service, with C(.service).
        type: str
        required: true
      description:
        description: What C(systemctl status) shows; the name by default.
        type: str
      argv:
        description: The program and its arguments. They reach the program as they are; systemd expands nothing in them.
        type: list
        elements: str
      environment:
        description: Environment variables. The values must be texts or numbers.
        type: dict
      timeout_stop:
        description: Seconds a stop may take (C(TimeoutStopSec)); longer than the program needs to drain.
        type: int
      files:
        description:
          - Files that the program reads. They are written before the start, for everybody to read, so nothing in them
            may be secret. A container has those of its unit under the same name. They are never removed, as the unit
            that ran before may name another one.
          - They are no part of the digest. A path that tells its content, in the environment or the arguments of the
            unit, makes a new content a new unit.
        type: list
        elements: dict
        suboptions:
          path:
            description: Absolute path. Its folder is made when it is not there, and opened (C(a+x)) when it is closed.
            type: path
            required: true
          content:
            description: What stands in it.
            type: str
            required: true
      sections:
        description:
          - Settings of this unit that replace those of O(defaults), by section and key.
          - A list repeats the key, V(null) leaves it out. C(Environment), C(ExecStartPre) and C(RuntimeDirectory) are
            added to what the unit has.
        type: dict
  executable_dir:
    description: Folder of programs whose O(units[].argv) starts with a relative path.
    type: path
  defaults:
    description: Sections for all units, in the form of O(units[].sections).
    type: dict
  default_environment:
    description: Environment variables for all units. Those of a unit win over them.
    type: dict
  environment:
    description: Environment variables for all units. They win over those of a unit.
    type: dict
  container:
    description:
      - Run the programs in containers of this image, with the host's network, processes and shared memory. Everything
        else of the units is as without it, such as their log files, stops and digests.
      - The runtime runs as root. C(User), C(Group), C(SupplementaryGroups), C(NoNewPrivileges) and C(WorkingDirectory)
        of the units do not count, C(Limit*) become limits of the container.
      - O(executable_dir) does not count, the programs are those of the image.
    type: dict
    suboptions:
      runtime:
        description: The container runtime. With V(podman), the processes stay in the control group of the unit.
        type: str
        choices: [podman, docker]
        default: podman
      image:
        description: The image. It must be on the host, none is pulled.
        type: str
        required: true
      executable_dir:
        description: Folder in the image for programs with a relative path, which else are searched in its C(PATH).
        type: path
      user:
        description: User and group in the container, C(1000:1000); that of the image by default.
        type: str
      devices:
        description: Devices of the host, in the runtime's form.
        type: list
        elements: str
        default: []
      mounts:
        description: Files and folders of the host that the container has, in the form C(SOURCE:TARGET:ro).
        type: list
        elements: str
        default: []
      shm_size:
        description: Size of a C(/dev/shm) of its own; without it the container has that of the host.
        type: str
      args:
        description: More arguments for C(run); where one is given twice, the runtime takes the last.
        type: list
        elements: str
        default: []
  log_dir:
    description:
      - Folder for the log files, C(LOG_DIR/NAME without .service.log). It must exist. Rotate with C(copytruncate), as
        systemd keeps the file open.
      - Without it the units log to the journal.
    type: path
  enabled:
    description: Whether the units start at boot.
    type: bool
    default: true
  state:
    description:
      - V(started) and V(stopped) write the units first.
      - V(present) writes and enables, and neither starts nor stops.
      - V(previous) puts back the unit files that ran before the present ones, and starts them. Programs and data that
        they name must still be there.
      - V(absent) stops, disables and removes.
    type: str
    choices: [started, stopped, present, previous, absent]
    default: started
  on_change:
    description: For O(state=started), whether running units that run something else are restarted or only reported.
    type: str
    choices: [restart, keep]
    default: restart
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
notes:
  - A unit that runs as started here can still die a moment later. M(mooncake.pd.wait_ready) proves that it came up.
seealso:
  - module: mooncake.pd.wait_ready
"""

EXAMPLES = r"""
- name: Start the processes of this host
  mooncake.pd.units:
    units: "{{ pd_host.processes | map(attribute='unit') }}"
    executable_dir: /opt/mooncake-pd/venv/bin
    log_dir: /var/log/mooncake-pd
    defaults:
      Service:
        User: mooncake-pd
        LimitMEMLOCK: infinity
        LimitNOFILE: 1048576

- name: Write new settings, and tell which processes still run the old ones
  mooncake.pd.units:
    units: "{{ pd_host.processes | map(attribute='unit') }}"
    executable_dir: /opt/mooncake-pd/venv/bin
    log_dir: /var/log/mooncake-pd
    on_change: keep
  register: written

- name: Go back to what ran before
  mooncake.pd.units:
    units:
      - name: mooncake-pd-p1.service
    log_dir: /var/log/mooncake-pd
    state: previous

- name: Remove a process that left the plan
  mooncake.pd.units:
    units:
      - name: mooncake-pd-p3.service
    state: absent
"""

RETURN = r"""
units:
  description: What was done with each unit, in the order given. In check mode, what would be done.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the unit.
      type: str
    changed:
      description: Whether anything about this unit changed.
      type: bool
    installed:
      description: Whether its unit file was there before.
      type: bool
    started:
      description: Whether it was started.
      type: bool
    restarted:
      description: Whether it was restarted, as it ran something else.
      type: bool
    stopped:
      description: Whether it was stopped.
      type: bool
    outdated:
      description: Whether it still runs something else than its unit file says.
      type: bool
    active_state:
      description: State of systemd after the module (in check mode, before it).
      type: str
    invocation_id:
      description: Systemd's id of the start that RV(units[].active_state) is of; empty when it was never started.
      type: str
    digest:
      description: Digest of the unit file that is wanted; empty for O(state=absent).
      type: str
  sample:
    - name: mooncake-pd-p1.service
      changed: true
      installed: false
      started: true
      restarted: false
      stopped: false
      outdated: false
      active_state: active
      invocation_id: 0f3d6c1b5a7e4f2c9d8b7a6e5f4c3b2a
      digest: 2f6c1b0c0f1d4f6f5a0f4c0e2b8e9d7c6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d
"""

import os
import tempfile
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import (
    config_files,
    container_unit,
    notes,
    systemd,
    unit_file,
)
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import open_log, stem, tail

UNIT_DIR = unit_file.UNIT_DIR
RUN_DIR = notes.RUN_DIR


def read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read()
    except FileNotFoundError:
        return None


class Units:
    """One run of the module: plan everything, complain about everything, then act once on all units."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.state: str = module.params["state"]
        self.log_dir: Optional[str] = module.params["log_dir"]
        self.names: list[str] = [unit["name"] for unit in module.params["units"]]
        self.before: dict[str, Optional[str]] = {}
        self.after: dict[str, Optional[str]] = {}
        self.digests: dict[str, str] = {}
        self.found: dict[str, systemd.Unit] = {}
        self.decisions: dict[str, str] = {}
        self.enable: bool = module.params["enabled"] and self.state != "absent"
        self.switched: list[str] = []  # units to enable, or to disable
        self.files: list[tuple[config_files.Wanted, config_files.Found]] = []

    def plan(self) -> None:
        problems = [f"{name}: listed {self.names.count(name)} times" for name in sorted(self._repeated())]
        for unit in self.module.params["units"]:
            try:
                self._plan_file(unit)
            except (unit_file.UnitFileError, OSError) as error:
                problems.append(f"{unit['name']}: {error}")
        problems += self._plan_configs()
        if not problems:
            self.found = systemd.show(self.module.run_command, self.names)
            problems += [text for name in self.names for text in self._foreign(self.found[name])]
        if problems:
            self.module.fail_json(msg="Nothing was changed.\n" + "\n".join(problems))
        for name in self.names:
            self.decisions[name] = unit_file.decide(
                self.state,
                self.module.params["on_change"],
                self.found[name].running or (self.state not in unit_file.STARTS and self.found[name].waits_for_restart),
                self._running_digest(name),
                self.digests.get(name),
            )
        self.switched = [name for name in self.names if (self.found[name].UnitFileState == "enabled") != self.enable]

    def _repeated(self) -> set[str]:
        return {name for name in self.names if self.names.count(name) > 1}

    def _plan_file(self, unit: dict[str, Any]) -> None:
        params = self.module.params
        name = unit_file.check_name(unit["name"])
        path = os.path.join(UNIT_DIR, name)
        if os.path.islink(path):
            raise unit_file.UnitFileError(
                f"{path} is a link to {os.readlink(path)} (a masked unit?): remove it first (systemctl unmask {name})"
            )
        self.before[name] = read(path)
        before = self.before[name]
        if before is not None and not unit_file.is_ours(before):
            raise unit_file.UnitFileError(
                f"{path} was not written by mooncake.pd (its first line is not {unit_file.HEADER!r}): move it away, or"
                " give this unit another name"
            )
        if self.state == "absent":
            self.after[name] = None
            return
        if self.state == "previous":
            previous = read(path + unit_file.PREVIOUS)
            if previous is None:
                raise unit_file.UnitFileError(f"nothing ran before: there is no {path}{unit_file.PREVIOUS}")
            self.after[name] = previous
            self.digests[name] = unit_file.digest(previous)
            return
        given = (params["default_environment"] or {}, unit["environment"] or {}, params["environment"] or {})
        planned = {**unit, "environment": {**given[0], **given[1], **given[2]}}
        defaults = params["defaults"]
        if params["container"]:
            planned, defaults = self._contained(planned, defaults)
        rendered = unit_file.render(planned, params["executable_dir"], defaults, None, self.log_dir)
        self.after[name] = rendered.text
        self.digests[name] = rendered.digest

    def _plan_configs(self) -> list[str]:
        """Those that are not there as they are wanted."""
        params = self.module.params
        if self.state in ("previous", "absent"):
            return []
        try:
            files = config_files.wanted(params["units"])
            seen = [(file, config_files.look(file)) for file in files]
            self.files = [(file, found) for file, found in seen if not found.as_wanted]
        except (config_files.ConfigFileError, OSError) as error:
            return [str(error)]
        return []

    def _contained(self, unit: dict[str, Any], defaults: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        container = dict(self.module.params["container"])
        runtime = container["runtime"]
        # where packages have it, for check mode before it is installed
        container["executable"] = self.module.get_bin_path(runtime) or f"/usr/bin/{runtime}"
        container_unit.check(container, unit["argv"] or [])
        return container_unit.contained(unit, container, defaults, RUN_DIR)

    def _foreign(self, unit: systemd.Unit) -> list[str]:
        own = os.path.join(UNIT_DIR, unit.name)
        if unit.FragmentPath in ("", own):
            return []
        return [
            f"{unit.name}: this host has a unit of that name in {unit.FragmentPath}, which is not mooncake.pd's: give"
            " this unit another name"
        ]

    def _running_digest(self, name: str) -> Optional[str]:
        text = notes.read(os.path.join(RUN_DIR, stem(name), "digest"))
        return text.strip() if text else None

    # ---- what is to be done --------------------------------------------------------------------------------------

    def _ran(self, name: str) -> bool:
        """Whether the file that is there now is what the unit runs with."""
        before = self.before[name]
        return before is not None and unit_file.digest(before) == self._running_digest(name)

    @property
    def written(self) -> list[str]:
        return [name for name in self.names if self.before[name] != self.after[name]]

    def decided(self, *decisions: str) -> list[str]:
        return [name for name in self.names if self.decisions[name] in decisions]

    @property
    def diff(self) -> list[dict[str, str]]:
        return [
            {
                "before": self.before[name] or "",
                "after": self.after[name] or "",
                "before_header": os.path.join(UNIT_DIR, name) if self.before[name] is not None else f"{name} (absent)",
                "after_header": os.path.join(UNIT_DIR, name) if self.after[name] is not None else f"{name} (absent)",
            }
            for name in self.written
        ] + [
            {
                "before": found.content or "",
                "after": file.content,
                "before_header": file.path if found.content is not None else f"{file.path} (absent)",
                "after_header": f"{file.path} (mode {config_files.MODE:04o})",
            }
            for file, found in self.files
        ]

    # ---- doing it ------------------------------------------------------------------------------------------------

    def act(self) -> None:
        if self.state not in ("previous", "absent"):
            # before the stop: what a unit runs with is told only while it runs
            for name in self.written:
                if self._ran(name):
                    self._write(name + unit_file.PREVIOUS, self.before[name])
        self._systemctl("stop", self.decided(unit_file.STOP))
        if self.state == "absent":
            self._systemctl("disable", self.switched)
            self._systemctl("reset-failed", [name for name in self.names if self.found[name].ActiveState == "failed"])
            for name in self.names:
                self._write(name + unit_file.PREVIOUS, None)
        for file, _found in self.files:
            config_files.write(file)
        for name in self.written:
            self._write(name, self.after[name])
        if self.written or any(unit.NeedDaemonReload == "yes" for unit in self.found.values()):
            self._systemctl("daemon-reload")
        if self.state == "absent":
            return
        self._systemctl("enable" if self.enable else "disable", self.switched)
        start, restart = self.decided(unit_file.START), self.decided(unit_file.RESTART)
        known = [name for name in (*start, *restart) if self.found[name].LoadState == "loaded"]
        if known:
            # The limit of starts counts those by hand and by us as well, systemd.unit(5). This fails for a unit that
            # systemd has forgotten meanwhile, and its count with it; whether it starts is seen below.
            systemd.systemctl(self.module.run_command, "reset-failed", known)
        answers = [
            systemd.systemctl(self.module.run_command, verb, names)
            for verb, names in (("start", start), ("restart", restart))
            if names
        ]
        self.found = systemd.show(self.module.run_command, self.names)
        self._check_started([*start, *restart], [answer for answer in answers if answer])

    def _write(self, name: str, text: Optional[str]) -> None:
        path = os.path.join(UNIT_DIR, name)
        if text is None:
            if os.path.lexists(path):
                os.unlink(path)
            return
        handle, temporary = tempfile.mkstemp(dir=UNIT_DIR, prefix=".mooncake-pd-")
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            target.write(text)
        os.chmod(temporary, 0o644)
        self.module.atomic_move(temporary, path)

    def _systemctl(self, verb: str, names: Optional[list[str]] = None) -> None:
        if names is not None and not names:
            return
        error = systemd.systemctl(self.module.run_command, verb, names or [])
        if error:
            self._fail(f"`systemctl {verb} {' '.join(names or [])}` failed: {error}")

    def _check_started(self, names: list[str], answers: list[str]) -> None:
        texts = []
        for name in names:
            unit = self.found[name]
            if unit.running:
                continue
            log = open_log(self.log_dir, name, unit.InvocationID or None, self.module.run_command)
            rows = [f"{name} did not start: {unit.ActiveState}, {unit.exit_text}."]
            if unit.advice:
                rows.append(f"What to do: {unit.advice}")
            lines = tail(log, 10)
            rows += [f"From {log.where}:", *(f"  {line}" for line in lines)] if lines else [f"Nothing in {log.where}."]
            texts.append("\n".join(rows))
        if texts or answers:
            self._fail("\n".join(texts or answers))

    def _fail(self, text: str) -> None:
        self.module.fail_json(msg=text, changed=self.changed, units=self.results(), diff=self.diff)

    # ---- telling -------------------------------------------------------------------------------------------------

    @property
    def changed(self) -> bool:
        return bool(self.files) or any(answer["changed"] for answer in self.results())

    def results(self) -> list[dict[str, Any]]:
        written, switched = set(self.written), set(self.switched)
        answers = []
        for name in self.names:
            decision = self.decisions[name]
            acts = decision in (unit_file.START, unit_file.RESTART, unit_file.STOP)
            answers.append(
                {
                    "name": name,
                    "changed": acts or name in written or name in switched,
                    "installed": self.before[name] is not None,
                    "started": decision == unit_file.START,
                    "restarted": decision == unit_file.RESTART,
                    "stopped": decision == unit_file.STOP,
                    "outdated": decision == unit_file.OUTDATED,
                    "active_state": self.found[name].ActiveState,
                    "invocation_id": self.found[name].InvocationID,
                    "digest": self.digests.get(name, ""),
                }
            )
        return answers

    def run(self) -> None:
        self.plan()
        if not self.module.check_mode:
            self.act()
            self.found = systemd.show(self.module.run_command, self.names)
        self.module.exit_json(changed=self.changed, units=self.results(), diff=self.diff)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "description": {"type": "str"},
                    "argv": {"type": "list", "elements": "str"},
                    "environment": {"type": "dict"},
                    "timeout_stop": {"type": "int"},
                    "files": {
                        "type": "list",
                        "elements": "dict",
                        "options": {
                            "path": {"type": "path", "required": True},
                            "content": {"type": "str", "required": True},
                        },
                    },
                    "sections": {"type": "dict"},
                },
            },
            "executable_dir": {"type": "path"},
            "defaults": {"type": "dict"},
            "default_environment": {"type": "dict"},
            "environment": {"type": "dict"},
            "container": {
                "type": "dict",
                "options": {
                    "runtime": {"type": "str", "choices": ["podman", "docker"], "default": "podman"},
                    "image": {"type": "str", "required": True},
                    "executable_dir": {"type": "path"},
                    "user": {"type": "str"},
                    "devices": {"type": "list", "elements": "str", "default": []},
                    "mounts": {"type": "list", "elements": "str", "default": []},
                    "shm_size": {"type": "str"},
                    "args": {"type": "list", "elements": "str", "default": []},
                },
            },
            "log_dir": {"type": "path"},
            "enabled": {"type": "bool", "default": True},
            "state": {
                "type": "str",
                "choices": ["started", "stopped", "present", "previous", "absent"],
                "default": "started",
            },
            "on_change": {"type": "str", "choices": ["restart", "keep"], "default": "restart"},
        },
        supports_check_mode=True,
    )
    try:
        Units(module).run()
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.")


if __name__ == "__main__":
    main()
