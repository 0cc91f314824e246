# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_ready
short_description: Wait until processes are proven ready, and stop at once when one has failed
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - A process is ready when its unit is active with an unchanged main process, and the wanted log lines appeared since
    this start, and the unit's own processes listen on the planned ports, and its health URL answers 200 (with the
    wanted values).
  - Watches all processes of a host in one loop. A process that dies, is started again by systemd, or logs a line that
    proves its failure (such as C(Address already in use)) ends the wait within about a second, with the first cause
    found in its log, the lines around it and what to do.
  - When the time is over, it tells for each process what was still missing.
  - A success is noted in C(/run/mooncake-pd/NAME/ready) for this very start, so a later wait does not need log lines
    that may have been rotated away by then. systemd removes the note when the unit stops.
  - The action plugin of the same name runs the module in slices and shows the progress. With C(any_errors_fatal) it
    also ends the wait, within a slice of ten seconds, when the same task has failed on another host.
options:
  processes:
    description: What to wait for.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the process, for messages.
        type: str
        required: true
      unit:
        description: Its systemd unit.
        type: str
        required: true
      lines:
        description: Lines its log must have since this start.
        type: list
        elements: dict
        default: []
        suboptions:
          pattern:
            description: Regular expression (Python), searched in each line without colours.
            type: str
            required: true
          count:
            description: In how many lines it must be found, such as the number of API servers.
            type: int
            default: 1
          text:
            description: What progress and messages call this line. The pattern, if omitted.
            type: str
      ports:
        description: Ports the unit's own processes must listen on.
        type: list
        elements: dict
        default: []
        suboptions:
          purpose:
            description: What the port is for.
            type: str
            required: true
          address:
            description: The planned address. A listener on all addresses serves it as well; V(0.0.0.0) needs one.
            type: str
            required: true
          first:
            description: First port.
            type: int
            required: true
          last:
            description: Last port, inclusive.
            type: int
            required: true
      health:
        description: A URL that must answer 200, asked without any proxy.
        type: dict
        suboptions:
          url:
            description: The URL.
            type: str
            required: true
          json:
            description: Keys of the answer that must have this value, or one of those in a list.
            type: dict
            default: {}
          states:
            description:
              - Where there is more than one way to be ready, such as to lead and to stand by. The answer has to fit one
                of them, the first that fits is returned as RV(processes[].state).
            type: list
            elements: dict
            default: []
            suboptions:
              name:
                description: What the state is called.
                type: str
                required: true
              json:
                description: Keys of the answer that must have this value, or one of those in a list.
                type: dict
                required: true
              without:
                description: Purposes of those ports that are not open in this state.
                type: list
                elements: str
                default: []
      limits:
        description: What its processes have to be allowed, in place of O(limits).
        type: dict
        default: {}
      hugepages:
        description: Bytes of hugepages that its processes must have mapped once it is ready; V(0) for any number.
        type: int
        default: 0
  limits:
    description:
      - What all processes have to be allowed, V(memlock), V(nofile), V(nproc), V(core) or V(stack), as the unit says it
        (V(infinity), V(1048576), V(8M), or soft and hard as V(1024:1048576)).
      - The limits of the running processes count, not those of the unit file, as a container or a drop-in may withhold
        them without an error. Less than wanted ends the wait right after the start.
    type: dict
    default: {}
  log_dir:
    description:
      - Folder of the log files, as in M(mooncake.pd.units). Units without a file there are read from the journal.
    type: path
  timeout:
    description: Seconds to wait.
    type: float
    default: 600
  interval:
    description: Seconds between two looks.
    type: float
    default: 0.5
  fatal_patterns:
    description: More regular expressions; a line of this start that matches one ends the wait.
    type: list
    elements: str
    default: []
  notes:
    description:
      - Lines worth keeping, as regular expressions by name, such as the line that tells the transport.
      - When all processes are ready, the last line that matches each is noted beside the proof, in
        C(/run/mooncake-pd/NAME/notes.json). M(mooncake.pd.unit_log_info) returns it as long as this start lasts, also
        after the log was rotated. A process that an earlier wait has proven keeps the notes of that wait.
    type: dict
    default: {}
  slice:
    description: Seconds one call may take; the action plugin uses it. With V(0) one call waits for the whole timeout.
    type: float
    default: 0
  seen:
    description: What an earlier slice returned as RV(seen); the action plugin uses it.
    type: dict
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
    details: Looks once, and reports RV(ready) without failing.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)); otherwise it cannot be seen whose the ports are, and the wait fails.
seealso:
  - module: mooncake.pd.units
  - module: mooncake.pd.unit_log_info
"""

EXAMPLES = r"""
- name: Wait until the processes of this host are ready
  mooncake.pd.wait_ready:
    processes: "{{ pd_host.processes | map(attribute='ready') }}"
    log_dir: /var/log/mooncake-pd
    limits: {memlock: infinity, nofile: 1048576}
    timeout: 1800
    notes:
      transport: "(?:Tcp|Rdma|Ascend\\w*)Transport"
  become: true

- name: Wait for a master alone
  mooncake.pd.wait_ready:
    processes:
      - name: master
        unit: mooncake-pd-master.service
        ports:
          - {purpose: rpc, address: 0.0.0.0, first: 50051, last: 50051}
        health:
          url: http://127.0.0.1:9003/health
          json: {service_ready: true}
  become: true
"""

RETURN = r"""
ready:
  description: Whether all processes are ready.
  returned: always
  type: bool
processes:
  description: How each process stands.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the process.
      type: str
    unit:
      description: Its unit.
      type: str
    ready:
      description: Whether it is proven ready.
      type: bool
    seconds:
      description: Seconds of waiting until it was.
      type: float
    main_pid:
      description: Main process of the unit.
      type: int
    invocation_id:
      description: The start that was watched.
      type: str
    state:
      description: Which of its states it is in; V(null) where it has none, and as long as it is not ready.
      type: str
      sample: standby
    missing:
      description: What was still missing.
      type: list
      elements: str
    degraded:
      description: Lines that mean trouble but no failure, by name, with count, last line and advice.
      type: list
      elements: dict
    hugepages:
      description: Bytes of hugepages that its processes have mapped; V(null) as long as it is not ready.
      type: int
    reason:
      description: Why it has failed.
      returned: when it has failed
      type: str
    cause:
      description: The first line of its log that explains the failure.
      returned: when it has failed
      type: str
    speaker:
      description: Process or rank that wrote this line.
      returned: when it has failed
      type: str
    earlier:
      description: An exception further up, which may be the reason behind the cause.
      returned: when it has failed
      type: str
    advice:
      description: What to do.
      returned: when it has failed
      type: str
    excerpt:
      description: The lines around the cause, or the last ones.
      returned: when it has failed
      type: list
      elements: str
    log:
      description: Where the lines come from.
      returned: when it has failed
      type: str
waiting:
  description: The slice is over and another one is needed.
  returned: with O(slice)
  type: bool
progress:
  description: What each process that is not ready waits for.
  returned: with O(slice)
  type: list
  elements: dict
seen:
  description: For the next slice.
  returned: with O(slice)
  type: dict
"""

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import systemd, watch
from ansible_collections.mooncake.pd.plugins.module_utils.readiness import Expected


def argument_spec() -> dict[str, Any]:
    port = {
        "purpose": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "first": {"type": "int", "required": True},
        "last": {"type": "int", "required": True},
    }
    line = {
        "pattern": {"type": "str", "required": True},
        "count": {"type": "int", "default": 1},
        "text": {"type": "str"},
    }
    state = {
        "name": {"type": "str", "required": True},
        "json": {"type": "dict", "required": True},
        "without": {"type": "list", "elements": "str", "default": []},
    }
    health = {
        "url": {"type": "str", "required": True},
        "json": {"type": "dict", "default": {}},
        "states": {"type": "list", "elements": "dict", "default": [], "options": state},
    }
    return {
        "processes": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "unit": {"type": "str", "required": True},
                "lines": {"type": "list", "elements": "dict", "default": [], "options": line},
                "ports": {"type": "list", "elements": "dict", "default": [], "options": port},
                "health": {"type": "dict", "options": health},
                "limits": {"type": "dict", "default": {}},
                "hugepages": {"type": "int", "default": 0},
            },
        },
        "limits": {"type": "dict", "default": {}},
        "log_dir": {"type": "path"},
        "timeout": {"type": "float", "default": 600},
        "interval": {"type": "float", "default": 0.5},
        "fatal_patterns": {"type": "list", "elements": "str", "default": []},
        "notes": {"type": "dict", "default": {}},
        "slice": {"type": "float", "default": 0},
        "seen": {"type": "dict"},
    }


def wait(module: AnsibleModule) -> None:
    params = module.params
    try:
        expected = [Expected.of(process, params["limits"]) for process in params["processes"]]
        fatal_patterns = [re.compile(pattern) for pattern in params["fatal_patterns"]]
        note_patterns = {name: re.compile(str(pattern)) for name, pattern in params["notes"].items()}
    except re.error as error:
        module.fail_json(msg=f"{error.pattern!r} is no regular expression: {error}", ready=False)
    except ValueError as error:
        module.fail_json(msg=str(error), ready=False)
    watcher = watch.Watcher(
        expected,
        module.run_command,
        log_dir=params["log_dir"],
        fatal_patterns=fatal_patterns,
        note_patterns=note_patterns,
        seen=params["seen"],
    )
    if module.check_mode:
        watcher.look(thorough=True)
        module.exit_json(changed=False, ready=watcher.verdict == watch.READY, processes=watcher.results())
    already = {process.name for process in watcher.watched if process.seconds is not None}
    left = max(0.0, params["timeout"] - watcher.waited)
    last_slice = not params["slice"] or left <= params["slice"]
    verdict = watcher.wait(left if last_slice else params["slice"], max(0.05, params["interval"]))
    for process in watcher.watched:
        if process.ready and process.name not in already:
            module.log(f"proven ready {process.name} {process.expected.unit} invocation={process.invocation}")
    answer: dict[str, Any] = {"changed": False, "ready": verdict == watch.READY, "processes": watcher.results()}
    if verdict == watch.READY:
        watcher.keep_proof()
        module.exit_json(**answer)
    if verdict == watch.FAILED:
        module.fail_json(msg=watcher.failure_text(), **answer)
    if last_slice:
        module.fail_json(msg=watcher.timeout_text(params["timeout"]), **answer)
    module.exit_json(waiting=True, progress=watcher.progress(), seen=watcher.seen(), **answer)


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        wait(module)
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.", ready=False)


if __name__ == "__main__":
    main()
