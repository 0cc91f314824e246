# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_environment_info
short_description: What set_env.sh and the like would give to an engine
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - A systemd unit reads no C(.bashrc), so what CANN's C(set_env.sh) sets has to stand in the unit. This module reads
    the scripts in an empty environment and returns what they set or change, as variables.
  - It also finds jemalloc, and puts the folders of C(LD_LIBRARY_PATH) in order. No empty entry is left, which would
    mean the current folder. The driver's folders come after those of CANN, and folders of stubs after the driver's.
options:
  scripts:
    description:
      - Scripts to read, in this order. One that is missing is a problem.
      - Without it, those of the newest CANN toolkit and of the newest NNAL that are installed. With O(prefix), where
        the installers put them.
    type: list
    elements: path
  jemalloc:
    description:
      - V(auto) loads jemalloc first (C(LD_PRELOAD)) where it is installed, V(true) calls it a problem when it is not,
        V(false) leaves it out.
      - A path names the library.
    type: str
    default: "false"
  library_paths:
    description: Folders that C(LD_LIBRARY_PATH) gets as well. Those that do not exist are left out.
    type: list
    elements: path
    default: []
  base:
    description:
      - Variables that the scripts see. They are returned only where a script changes them.
      - NNAL's script asks C(python3) for torch, so C(PATH) should begin with the folder of the engine's Python.
    type: dict
    default: {}
  prefix:
    description:
      - Command that the reading shell is the last part of, such as C(podman run --rm IMAGE). The scripts are then read
        in that container, on top of the environment that the image has.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - The scripts run as the user of the task. They are programs of the host and can do anything that this user can.
seealso:
  - module: mooncake.pd.units
"""

EXAMPLES = r"""
- name: Learn what CANN wants an engine to have
  mooncake.pd.engine_environment_info:
    jemalloc: auto
    library_paths: [/usr/local/Ascend/driver/lib64]
    base: {PATH: "/opt/engine/bin:/usr/local/bin:/usr/bin:/bin"}
  register: told

- name: Start the engine with it
  mooncake.pd.units:
    units: "{{ pd_host.processes | map(attribute='unit') }}"
    default_environment: "{{ told.environment }}"
"""

RETURN = r"""
environment:
  description: The variables, by name. Empty when something is wrong.
  returned: always
  type: dict
scripts:
  description: The scripts that were read.
  returned: always
  type: list
  elements: str
cann:
  description: The newest CANN toolkit of the host; null when there is none. What O(prefix) has in it is not told.
  returned: always
  type: dict
  contains:
    path:
      description: Its folder.
      type: str
    version:
      description: Its version; null when no file names it.
      type: str
problems:
  description: What is wrong, one sentence each.
  returned: always
  type: list
  elements: str
"""

import os
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import cann, engine_environment

_SECONDS = 60.0
# in an image, where nobody has looked yet which of them there are
_USUAL = (
    "/usr/local/Ascend/cann/set_env.sh",
    "/usr/local/Ascend/ascend-toolkit/set_env.sh",
    "/usr/local/Ascend/nnal/atb/set_env.sh",
)


def _cann(packages: list[dict[str, Any]]) -> Optional[dict[str, Any]]:
    toolkits = engine_environment.newest([one for one in packages if engine_environment.is_toolkit(one)])
    return {"path": toolkits[0]["path"], "version": toolkits[0]["version"]} if toolkits else None


def look(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    prefix: list[str] = params["prefix"]
    packages = [] if prefix else cann.toolkits(cann.Files())[0]
    scripts: list[str] = params["scripts"]
    optional: list[str] = []
    if scripts is None:
        scripts = optional = list(_USUAL) if prefix else engine_environment.scripts_of(packages)
    wanted = params["jemalloc"]
    places = [] if wanted == "false" else engine_environment.jemalloc_places()
    if wanted.startswith("/"):
        places = [wanted]

    base = {"PATH": engine_environment.PATH, **{name: str(value) for name, value in params["base"].items()}}
    given = [f"{name}={value}" for name, value in base.items()]
    shell = engine_environment.command(scripts, places, params["library_paths"])
    # an image has an environment of its own, which the engine will have as well
    argv = [*prefix, *shell] if prefix else [module.get_bin_path("env", required=True), "-i", *given, *shell]
    code, out, err = module.run_command(["timeout", f"{_SECONDS:g}", *argv], cwd="/")
    answer = engine_environment.parse(out)
    problems = engine_environment.problems(answer, err, optional)
    if answer.after is None and not answer.scripts:
        problems = [f"the shell that reads the scripts ended with code {code}: {err.strip() or out.strip()}"]
    if not answer.libraries and wanted not in ("false", "auto"):
        problems.append(f"jemalloc is not installed: there is no {' and no '.join(places)}")
    preload = answer.libraries[0] if answer.libraries else None
    found = {} if problems else engine_environment.environment(answer, preload, answer.folders)
    return {
        "environment": found,
        "scripts": [path for path, told in answer.scripts.items() if told != "missing"],
        "cann": _cann(packages),
        "problems": problems,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "scripts": {"type": "list", "elements": "path"},
            "jemalloc": {"type": "str", "default": "false"},
            "library_paths": {"type": "list", "elements": "path", "default": []},
            "base": {"type": "dict", "default": {}},
            "prefix": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    wanted = module.params["jemalloc"]
    if not os.path.isabs(wanted):
        # YAML's true comes as True
        wanted = {"yes": "true", "no": "false"}.get(wanted.lower(), wanted.lower())
        if wanted not in ("auto", "true", "false"):
            module.fail_json(msg=f"jemalloc: {wanted!r} is neither auto, true, false nor a full path")
        module.params["jemalloc"] = wanted
    module.exit_json(changed=False, **look(module))


if __name__ == "__main__":
    main()
