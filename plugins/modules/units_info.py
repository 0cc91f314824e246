# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: units_info
short_description: See how the systemd services of a host are, and which of the collection's it should not have
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Reads state, restarts, memory and the last end of each unit, and compares what it runs with its file.
  - Lists services C(mooncake-pd-*) that are on the host though nobody asked for them here, for instance of an
    instance that left the plan. They are told and never touched.
  - What a unit runs is the digest in C(/run/mooncake-pd/NAME/digest), which the units of M(mooncake.pd.units) write at
    each start. Whether the file is the planned one is for M(mooncake.pd.units) in check mode to say.
options:
  units:
    description: Names of the units, with C(.service).
    type: list
    elements: str
    required: true
  known:
    description:
      - Names or shell patterns of C(mooncake-pd-*) services that are no strays though they are not in O(units).
      - The default are those that roles and modules of this collection have for themselves.
    type: list
    elements: str
    default: [mooncake-pd-logs.service, mooncake-pd-preflight.service, mooncake-pd-baseline*, mooncake-pd-transport*]
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
seealso:
  - module: mooncake.pd.units
  - module: mooncake.pd.unit_log_info
"""

EXAMPLES = r"""
- name: See how the processes of this host are
  mooncake.pd.units_info:
    units: "{{ pd_host.processes | map(attribute='unit.name') }}"
  register: seen

- name: Tell what runs an older unit file
  ansible.builtin.debug:
    msg: "{{ seen.units | selectattr('outdated') | map(attribute='name') }}"
"""

RETURN = r"""
units:
  description: The units in the order of the names.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the unit.
      type: str
    installed:
      description: Whether it has a file in C(/etc/systemd/system).
      type: bool
    ours:
      description: Whether M(mooncake.pd.units) wrote that file.
      type: bool
    enabled:
      description: Whether it starts at boot.
      type: bool
    active_state:
      description: State of systemd, such as V(active), V(activating), V(inactive) or V(failed).
      type: str
    sub_state:
      description: The finer state, such as V(running), V(auto-restart) or V(dead).
      type: str
    running:
      description: Whether it runs or starts at this moment; false while it waits to be started again.
      type: bool
    waits_for_restart:
      description: Whether it ended and systemd is about to start it again.
      type: bool
    result:
      description: Systemd's word for the last end, V(success) when there was none or it went well.
      type: str
    main_pid:
      description: Its main process, null without one.
      type: int
    since:
      description: Since when it is active, or when it ended, in seconds since the epoch; null when neither has been.
      type: float
    restarts:
      description: How often systemd started it again by itself since it was last started.
      type: int
    exit_code:
      description: Exit status of the main process at its last end, null when it was killed or has not ended.
      type: int
    exit_text:
      description: How it ended, in words; null when it has not ended.
      type: str
    advice:
      description: What to do about such an end, null when nothing is known.
      type: str
    digest_running:
      description: SHA-256 of the unit file it was started from, null when it does not run or does not say so.
      type: str
    digest_file:
      description: SHA-256 of its unit file now, null without one.
      type: str
    outdated:
      description: Whether it runs another file than the one that lies there, or does not say which.
      type: bool
    log:
      description: Where to read what it says, a path or a command.
      type: str
    memory:
      description: Bytes of its control group, null when they are not counted.
      type: int
    invocation_id:
      description: Systemd's id of this start, null when systemd has forgotten it.
      type: str
  sample:
    - name: mooncake-pd-p1.service
      installed: true
      ours: true
      enabled: true
      active_state: active
      sub_state: running
      running: true
      waits_for_restart: false
      result: success
      main_pid: 4711
      since: 1796033412.207
      restarts: 0
      exit_code: null
      exit_text: null
      advice: null
      digest_running: 2f6c1b0c0f1d4f6f5a0f4c0e2b8e9d7c6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d
      digest_file: 2f6c1b0c0f1d4f6f5a0f4c0e2b8e9d7c6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d
      outdated: false
      log: /var/log/mooncake-pd/mooncake-pd-p1.log
      memory: 1533214720
      invocation_id: 0b6f2c1d8a9e4f7c8d1b2a3c4d5e6f70
strays:
  description: Services of the collection's name that were not asked for, in the form of RV(units).
  returned: always
  type: list
  elements: dict
now:
  description: The host's time, in seconds since the epoch. How long ago something was is to be reckoned from it.
  returned: always
  type: float
"""

import time
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import notes, systemd, unit_file, unit_state

UNIT_DIR = unit_file.UNIT_DIR
RUN_DIR = notes.RUN_DIR
KNOWN = ["mooncake-pd-logs.service", "mooncake-pd-preflight.service", "mooncake-pd-baseline*", "mooncake-pd-transport*"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "required": True},
            "known": {"type": "list", "elements": "str", "default": KNOWN},
        },
        supports_check_mode=True,
    )
    planned = list(dict.fromkeys(module.params["units"]))
    wrong = []
    for name in planned:
        try:
            unit_file.check_name(name)
        except unit_file.UnitFileError as error:
            wrong.append(str(error))
    if wrong:
        module.fail_json(msg="units: " + "; ".join(wrong))
    try:
        found = [*unit_state.ours(UNIT_DIR), *unit_state.loaded(module.run_command)]
        strays = unit_state.strays(found, planned, module.params["known"])
        seen = systemd.show(module.run_command, [*planned, *strays])
        since_boot = unit_state.offset()

        def told(name: str) -> Dict[str, Any]:
            runs = unit_state.running_digest(RUN_DIR, name)
            return unit_state.describe(seen[name], unit_state.file_text(UNIT_DIR, name), runs, since_boot)

        module.exit_json(
            changed=False,
            units=[told(name) for name in planned],
            strays=[told(name) for name in strays],
            now=time.time(),
        )
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.")
    except OSError as error:
        module.fail_json(msg=f"The unit files cannot be read: {error}.")


if __name__ == "__main__":
    main()
