# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: units_stop
short_description: Stop a set of systemd services at once, and leave their files alone
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Stops all units in one call and returns when each has ended, so that processes of one instance end together and
    what they still have to do runs out at the same time. How long that may take is the units' own C(TimeoutStopSec).
  - Needs the names only. M(mooncake.pd.units) with O(mooncake.pd.units#module:state=stopped) writes the units first.
  - Refuses units that M(mooncake.pd.units) did not write. A unit that is not there is as good as stopped.
options:
  units:
    description: Names of the units, with C(.service).
    type: list
    elements: str
    required: true
  disable:
    description:
      - Whether the units also do not start at the next boot. Else a unit that is stopped starts again with its host.
      - M(mooncake.pd.units) enables them again.
    type: bool
    default: false
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
seealso:
  - module: mooncake.pd.units
  - module: mooncake.pd.units_info
"""

EXAMPLES = r"""
- name: Stop the decode processes of this host
  mooncake.pd.units_stop:
    units: "{{ pd_host.processes | selectattr('kind', 'equalto', 'decode') | map(attribute='unit.name') }}"
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
    stopped:
      description: Whether it was stopped; false when it did not run.
      type: bool
    disabled:
      description: Whether it was disabled; false when it was not enabled.
      type: bool
    cut:
      description: Whether it did not end within its C(TimeoutStopSec) and was killed. What it still had to do is lost.
      type: bool
    active_state:
      description: State of systemd after the module (in check mode, before it).
      type: str
  sample:
    - {name: mooncake-pd-d1.service, stopped: true, disabled: false, cut: false, active_state: inactive}
"""

from typing import Any, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import notes, systemd, unit_file, unit_state

UNIT_DIR = unit_file.UNIT_DIR
RUN_DIR = notes.RUN_DIR
ENDED = ("inactive", "failed")


def foreign(unit: systemd.Unit) -> Optional[str]:
    """Why a unit is not one that this collection may stop."""
    text = unit_state.file_text(UNIT_DIR, unit.name)
    own = f"{UNIT_DIR}/{unit.name}"
    if unit.FragmentPath not in ("", own):
        return f"{unit.name} comes from {unit.FragmentPath}, which is not mooncake.pd's"
    if text is not None and not unit_file.is_ours(text):
        return f"{own} was not written by mooncake.pd"
    if text is None and unit.ActiveState not in ENDED and not unit_state.running_digest(RUN_DIR, unit.name):
        return f"{unit.name} has no file in {UNIT_DIR} and does not say that mooncake.pd started it"
    return None


class Stop:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.names: List[str] = list(dict.fromkeys(module.params["units"]))
        wrong = []
        for name in self.names:
            try:
                unit_file.check_name(name)
            except unit_file.UnitFileError as error:
                wrong.append(str(error))
        self.before = {} if wrong else systemd.show(module.run_command, self.names)
        wrong += [why for why in map(foreign, self.before.values()) if why]
        if wrong:
            mend = "Mend: stop it by hand if it may be stopped, or take its name out."
            module.fail_json(msg="\n".join(["Nothing was stopped.", *wrong, mend]))
        self.after = self.before
        self.to_stop = [name for name, unit in self.before.items() if unit.ActiveState not in ENDED]
        disable = module.params["disable"]
        self.to_disable = [name for name, unit in self.before.items() if disable and unit.UnitFileState == "enabled"]

    def act(self) -> None:
        errors = [self._systemctl("stop", self.to_stop), self._systemctl("disable", self.to_disable)]
        self.after = systemd.show(self.module.run_command, self.names)
        # they ended because they were told to, whatever their exit status says of it
        failed = [name for name in self.to_stop if self.after[name].ActiveState == "failed" and not self._cut(name)]
        errors.append(self._systemctl("reset-failed", failed))
        if failed:
            self.after = systemd.show(self.module.run_command, self.names)
        errors += [
            f"{name} is still {self.after[name].ActiveState}"
            for name in self.to_stop
            if self.after[name].ActiveState not in ENDED
        ]
        told = [text for text in errors if text]
        if told:
            self.module.fail_json(msg="\n".join(told), **self.result())
        for name in filter(self._cut, self.to_stop):
            self.module.warn(f"{name} did not end within its TimeoutStopSec and was killed; what it was doing is lost")

    def _cut(self, name: str) -> bool:
        return self.after[name].Result == "timeout"

    def _systemctl(self, verb: str, names: List[str]) -> Optional[str]:
        if not names:
            return None
        error = systemd.systemctl(self.module.run_command, verb, names)
        return error and f"`systemctl {verb} {' '.join(names)}` failed: {error}"

    def result(self) -> Dict[str, Any]:
        units = [
            {
                "name": name,
                "stopped": name in self.to_stop,
                "disabled": name in self.to_disable,
                "cut": name in self.to_stop and self._cut(name),
                "active_state": self.after[name].ActiveState,
            }
            for name in self.names
        ]
        return {"changed": bool(self.to_stop or self.to_disable), "units": units, "diff": self._diff()}

    def _diff(self) -> Dict[str, str]:
        def line(name: str, active: str, enabled: str) -> str:
            return f"{name}: {active}, {enabled or 'no unit file'}\n"

        before = (line(name, unit.ActiveState, unit.UnitFileState) for name, unit in self.before.items())
        after = (
            line(
                name,
                "inactive" if name in self.to_stop else unit.ActiveState,
                "disabled" if name in self.to_disable else unit.UnitFileState,
            )
            for name, unit in self.before.items()
        )
        return {"before": "".join(before), "after": "".join(after)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "required": True},
            "disable": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        stop = Stop(module)
        if not module.check_mode:
            stop.act()
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.")
    except OSError as error:
        module.fail_json(msg=f"The unit files cannot be read: {error}.")
    module.exit_json(**stop.result())


if __name__ == "__main__":
    main()
