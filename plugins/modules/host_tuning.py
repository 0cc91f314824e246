# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_tuning
short_description: Set kernel values, hugepages, limits and the size of /dev/shm, now and at boot, and take them back
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Sets values of the kernel at once and writes the files that bring them back at boot,
    C(/etc/sysctl.d/95-mooncake-pd.conf), C(/etc/tmpfiles.d/mooncake-pd-host.conf),
    C(/etc/security/limits.d/90-mooncake-pd.conf) and the line of C(/dev/shm) in C(/etc/fstab).
  - Reads back what the kernel really gave. Hugepages that are missing are an error with the numbers and what to do.
  - What cannot be set here (C(/sys) is read-only, the kernel has no such key, a container may not raise limits) is
    found out before anything is written, and told in RV(withheld).
  - What would not last is an error before anything is changed, such as a file of sysctl that is read later and says
    something else.
  - Keeps what stood before in C(/var/lib/mooncake-pd-host/tuning.json). A value that is no longer asked for, and every
    one with O(state=absent), is put back, unless somebody else has changed it since.
options:
  state:
    description: V(absent) removes the files and puts back all values. The other options count for nothing then.
    type: str
    choices: [present, absent]
    default: present
  sysctl:
    description:
      - Keys and their values. A dictionary with C(at_least) and a number in place of a value raises a key and never
        lowers it. V(null) leaves it alone.
      - Reserved ports and hugepages have options of their own.
    type: dict
    default: {}
  reserved_ports:
    description:
      - Ports that the kernel is not to use as source ports, each as V(8100), V(20000-20015) or a claim of the plan with
        C(first) and C(last).
      - Ports outside of C(net.ipv4.ip_local_port_range) are left out, as the kernel never takes them. Ports that others
        have reserved, in files or at run time, stay reserved.
    type: list
    elements: raw
    default: []
  hugepages:
    description:
      - How many hugepages there have to be at least. What was there before the first run is never given back.
      - Pages of a size are told either for the whole host or for nodes.
    type: list
    elements: dict
    default: []
    suboptions:
      size:
        description: Size of a page, like V(2MB), V(1GB), or as the kernel has it, V(hugepages-524288kB).
        type: str
        required: true
      pages:
        description: Number of pages.
        type: int
        required: true
      node:
        description: NUMA node. Without it the kernel spreads the pages.
        type: int
  hugepages_compact:
    description: Whether the kernel is told to put free memory together and asked once more, when it gave fewer pages.
    type: bool
    default: false
  shm_size:
    description: Size of C(/dev/shm), like V(64G) or V(50%) of the memory.
    type: str
  transparent_hugepages:
    description: Mode of transparent hugepages.
    type: str
    choices: [always, madvise, never]
  governor:
    description: Governor of all CPUs, like V(performance).
    type: str
  limits:
    description:
      - Limits of logins, for C(/etc/security/limits.d). Sessions that are open keep what they have.
      - Units take no notice of them; theirs are set in the unit.
    type: list
    elements: dict
    default: []
    suboptions:
      domain:
        description: User, C(@group) or V(*).
        type: str
        required: true
      type:
        description: Which limit; V(-) for both.
        type: str
        choices: [soft, hard, "-"]
        default: "-"
      item:
        description: What is limited, like V(memlock) or V(nofile).
        type: str
        required: true
      value:
        description: A number in the units of limits.conf(5) (KiB for V(memlock)), or V(unlimited).
        type: str
        required: true
  files:
    description: More files to write in the same call. Files that are no longer asked for are removed.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file. Whatever stands there is replaced.
        type: path
        required: true
      content:
        description: Its text.
        type: str
        required: true
      executable:
        description: Whether it is a program.
        type: bool
        default: false
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
    details: How many hugepages the kernel would give is not known before.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
notes:
  - Run as root (C(become)).
seealso:
  - module: mooncake.pd.host_info
"""

EXAMPLES = r"""
- name: Tune the host
  mooncake.pd.host_tuning:
    sysctl:
      vm.max_map_count: {at_least: 16777216}
      vm.swappiness: 0
    reserved_ports: [20000-20015, 8100]
    hugepages:
      - {size: 2MB, pages: 8192, node: 0}
      - {size: 2MB, pages: 8192, node: 1}
    shm_size: 64G
    transparent_hugepages: madvise
    governor: performance
    limits:
      - {domain: mooncake, item: memlock, value: unlimited}
  become: true

- name: Put everything back
  mooncake.pd.host_tuning:
    state: absent
  become: true
"""

RETURN = r"""
settings:
  description: Every value that was looked at. In check mode RV(settings[].after) is what would be written.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Key of sysctl, or what it is.
      type: str
    before:
      description: What stood there.
      type: str
    wanted:
      description: What was to stand there.
      type: str
    after:
      description: What stands there.
      type: str
files:
  description: Files that were written or removed.
  returned: success
  type: list
  elements: str
withheld:
  description: What cannot be set on this host.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The value.
      type: str
    why:
      description: What stands against it.
      type: str
  sample:
    - name: transparent_hugepages
      why: it lies on a file system that is mounted read-only here (a container?)
restored:
  description: Values that were put back, as they are no longer asked for.
  returned: success
  type: list
  elements: str
kept:
  description: What was left as it is, though it is no longer asked for.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The value or file.
      type: str
    why:
      description: Why it stays.
      type: str
limits_changed:
  description: Whether sessions have to be opened anew to have their limits.
  returned: success
  type: bool
hugepages:
  description: All hugepages of the host.
  returned: success
  type: list
  elements: dict
  contains:
    size:
      description: Bytes of a page.
      type: int
    total:
      description: Number of pages.
      type: int
    free:
      description: Pages that nobody has written to.
      type: int
    reserved:
      description: Free pages that are promised to somebody.
      type: int
    nodes:
      description: The same by NUMA node, with C(node), C(total) and C(free).
      type: list
      elements: dict
time:
  description: Who keeps the time. Nothing is installed.
  returned: success
  type: dict
  contains:
    synchronized:
      description: Whether the kernel takes its clock for synchronized; V(null) where that cannot be asked.
      type: bool
    keepers:
      description: Programs that keep the time on this host.
      type: list
      elements: str
numa:
  description: NUMA nodes, and on which of them network cards and NPUs lie (V(null) where the firmware does not say).
  returned: success
  type: dict
  contains:
    nodes:
      description: The nodes.
      type: list
      elements: int
    nics:
      description: Network cards, with C(name) and C(node).
      type: list
      elements: dict
    npus:
      description: NPUs, with their PCI C(address) and C(node).
      type: list
      elements: dict
problems:
  description: Why nothing was changed.
  returned: when something that is asked for cannot be right
  type: list
  elements: str
"""

from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.host.system import System
from ansible_collections.mooncake.pd.plugins.module_utils.tuning import login_limits, observed, pages, work
from ansible_collections.mooncake.pd.plugins.module_utils.tuning.tree import Tree

ROOT = "/"


def argument_spec() -> dict[str, Any]:
    page = {
        "size": {"type": "str", "required": True},
        "pages": {"type": "int", "required": True},
        "node": {"type": "int"},
    }
    limit = {
        "domain": {"type": "str", "required": True},
        "type": {"type": "str", "choices": ["soft", "hard", "-"], "default": "-"},
        "item": {"type": "str", "required": True},
        "value": {"type": "str", "required": True},
    }
    file = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "required": True},
        "executable": {"type": "bool", "default": False},
    }
    return {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "sysctl": {"type": "dict", "default": {}},
        "reserved_ports": {"type": "list", "elements": "raw", "default": []},
        "hugepages": {"type": "list", "elements": "dict", "default": [], "options": page},
        "hugepages_compact": {"type": "bool", "default": False},
        "shm_size": {"type": "str"},
        "transparent_hugepages": {"type": "str", "choices": ["always", "madvise", "never"]},
        "governor": {"type": "str"},
        "limits": {"type": "list", "elements": "dict", "default": [], "options": limit},
        "files": {"type": "list", "elements": "dict", "default": [], "options": file},
    }


def synchronized() -> Optional[bool]:
    try:
        return System().synchronized()
    except OSError:
        return None


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    tree = Tree(ROOT)
    tuning = work.Tuning(tree, module.params, module.run_command)
    try:
        tuning.plan()
    except work.Refused as refused:
        module.fail_json(msg=f"Nothing was changed.\n{refused}", problems=refused.problems)
    diff = tuning.diff()
    if not module.check_mode:
        tuning.apply()
    changed_files = [path for path, (before, after) in tuning.files.items() if before != after]
    answer: dict[str, Any] = {
        "changed": tuning.changed,
        "settings": tuning.told(),
        "files": changed_files,
        "withheld": tuning.wishes.skipped,
        "restored": tuning.restored,
        "kept": tuning.kept,
        "limits_changed": login_limits.FILE in changed_files,
        "hugepages": pages.table(tree),
        "time": {"synchronized": synchronized(), "keepers": observed.keepers(tree)},
        "numa": observed.numa(tree),
        "diff": diff,
    }
    for text in tuning.warnings:
        module.warn(text)
    profile = observed.tuned(tree)
    if profile and module.params["state"] == "present":
        module.warn(f"tuned runs with the profile {profile} and may set the same values to something else")
    errors = list(tuning.errors)
    shortage = None if module.check_mode else tuning.shortage()
    if shortage:
        errors.append(shortage)
    if errors:
        module.fail_json(msg="\n".join(errors), **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
