# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_info
short_description: Tell whether a Mooncake master leads, and what would be lost with it
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks the master for C(/health) and C(/metrics), and the host for the process of its unit.
  - A master keeps the keys of the KV store in memory, so a restart of the one that leads empties the pool. RV(in_use)
    says whether there is anything to lose. What cannot be learnt counts as in use.
  - With what is planned, it also tells whether a restart to that may be at all.
  - It only reads.
options:
  url:
    description:
      - Where metrics and health are by the plan, without a path. A process that was told another place is asked there.
    type: str
    required: true
  unit:
    description: Its systemd unit on this host.
    type: str
    required: true
  release:
    description: The planned release of Mooncake.
    type: str
  argv:
    description: The planned command.
    type: list
    elements: str
    default: []
  leaders:
    description: The RPC addresses of all planned masters, each with the URL of its metrics and health, without a path.
    type: dict
    default: {}
  wait:
    description:
      - Seconds to wait until it leads and serves, or stands by for one of O(leaders) that does.
      - One that does not run, and one that answers and does not say its role, is not waited for.
    type: float
    default: 0
  timeout:
    description: Seconds for each question.
    type: float
    default: 5
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)); otherwise RV(release) may stay unknown.
seealso:
  - module: mooncake.pd.wait_ready
"""

EXAMPLES = r"""
- name: Ask the master of this host
  mooncake.pd.master_info:
    url: "http://{{ pd_host.address }}:{{ pd_cluster.master.metrics_port }}"
    unit: mooncake-pd-master.service
    release: "{{ pd_cluster.mooncake.version }}"
    leaders: "{{ pd_cluster.master.leaders }}"
  become: true
  register: seen

- name: Say what a restart costs
  ansible.builtin.debug:
    msg: "It {{ seen.cost }}"
"""

RETURN = r"""
running:
  description: Whether the unit runs.
  returned: always
  type: bool
error:
  description: Why it did not answer; empty when it did, and when it does not run.
  returned: always
  type: str
role:
  description: V(leader) or V(standby); V(null) when it does not say, as releases before 0.3.11.
  returned: always
  type: str
  sample: leader
state:
  description: Where it stands with the election, such as V(serving), V(leader_warmup), V(standby) or V(candidate).
  returned: always
  type: str
  sample: serving
service_ready:
  description: Whether it serves clients, which one that stands by does not; V(null) when it does not say.
  returned: always
  type: bool
leader:
  description: The RPC address of the one that leads, as far as this one knows.
  returned: always
  type: str
  sample: 192.0.2.11:17051
clients:
  description: How many clients it knows; V(null) when it does not say. So for the next three.
  returned: always
  type: int
key_count:
  description: How many keys it has.
  returned: always
  type: int
bytes:
  description: How many bytes of the pool they take.
  returned: always
  type: int
capacity:
  description: Bytes of the pool.
  returned: always
  type: int
in_use:
  description: Whether it runs and there is something to lose, or it cannot be told.
  returned: always
  type: bool
cost:
  description: What its restart costs, to follow the name of the master.
  returned: always
  type: str
  sample: stands by and holds nothing, so that costs nothing.
refusal:
  description:
    - Why it cannot restart with O(argv) and O(release), whatever is confirmed, and the way out; to follow the name of
      the master. Empty when it can.
    - Clients of another release could not talk to it. Where several stand by for each other, one that moves to another
      address or port would follow nobody, as they restart one after the other.
  returned: always
  type: str
misled:
  description:
    - Why it stands by for none of O(leaders), and the way out; to follow the name of the master. Empty when it does
      not, and without O(leaders).
  returned: always
  type: str
leader_error:
  description: Why the one of O(leaders) that it follows does not serve. Empty when it does, and when it follows none.
  returned: always
  type: str
settled:
  description: Whether it leads and serves, or stands by for one that does, or is too old to say.
  returned: always
  type: bool
release:
  description:
    - The release of Mooncake that runs, by the program of the process, else by what was planned when it was started.
    - V(null) when it does not run, and when neither tells.
  returned: always
  type: str
  sample: 0.3.13.post1
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import store_master, systemd
from ansible_collections.mooncake.pd.plugins.module_utils.store_master_restart import cost, misled, refusal

INTERVAL = 0.5  # seconds between two looks


def look(module: AnsibleModule, timeout: float) -> dict[str, Any]:
    """One look; the time for each question is cut to what is left."""
    params = module.params
    try:
        unit = systemd.show(module.run_command, [params["unit"]])[params["unit"]]
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.")
    command = store_master.command_of(unit.MainPID) if unit.MainPID else []
    url = store_master.place_of(params["url"], command)
    health = metrics = None
    why = ""
    if unit.running:
        health, why = store_master.ask(url, "/health", timeout)
        if not why:
            metrics, why = store_master.ask(url, "/metrics", timeout)
    facts = store_master.told(health, metrics)
    facts.update(running=unit.running, error=why, in_use=unit.running and facts["in_use"])
    facts["release"] = store_master.release_of(unit.MainPID, module.run_command) if unit.MainPID else None
    wrong = store_master.leader_error(facts, params["leaders"], timeout)
    return {
        **facts,
        "cost": cost(facts),
        "refusal": refusal(facts, command, params["argv"], params["release"]),
        "misled": misled(facts, params["leaders"]),
        "leader_error": wrong,
        "settled": store_master.settled(facts, wrong),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "unit": {"type": "str", "required": True},
            "release": {"type": "str"},
            "argv": {"type": "list", "elements": "str", "default": []},
            "leaders": {"type": "dict", "default": {}},
            "wait": {"type": "float", "default": 0},
            "timeout": {"type": "float", "default": 5},
        },
        supports_check_mode=True,
    )
    timeout = module.params["timeout"]
    end = time.monotonic() + module.params["wait"]
    seen = look(module, timeout)
    while seen["running"] and not seen["settled"] and time.monotonic() + INTERVAL < end:
        time.sleep(INTERVAL)
        seen = look(module, min(timeout, max(INTERVAL, end - time.monotonic())))
    module.exit_json(changed=False, **seen)


if __name__ == "__main__":
    main()
