# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Mooncake master says of itself: whether it leads, and what would be lost with it.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.request
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from ansible_collections.mooncake.pd.plugins.module_utils.systemd import Run
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import samples

# mooncake-store/src/master_metric_manager.cpp, v0.3.7.post2 to 0.3.13.post1 (tried)
METRICS = {
    "master_active_clients": "clients",
    "master_key_count": "key_count",
    "master_allocated_bytes": "bytes",
    "master_total_capacity_bytes": "capacity",
}
LEADER, STANDBY = "leader", "standby"
# plugin_utils/mooncake.py writes it into the unit: what the release was when this process was started
RELEASE_VARIABLE = "MOONCAKE_PD_MOONCAKE"
# "mooncake_master version 0.3.13.post1 (git: 7197358)"; 0.3.11 and newer say it (mooncake-store/src/master.cpp)
_RELEASE = re.compile(r"\bversion v?(\d+\.\d+\.\d+(?:[.-]?(?:post|rc)\d+)?)")
_MOST = 1 << 20


def ask(url: str, path: str, timeout: float) -> Tuple[Optional[str], str]:
    """The answer, or None and why there is none."""
    # a proxy of the environment must not answer for it
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url + path, timeout=timeout) as answer:
            return answer.read(_MOST).decode(errors="replace"), ""
    except (OSError, http.client.HTTPException, ValueError) as error:
        return None, f"{url}{path}: {str(error).strip() or type(error).__name__}"


def told(health: Optional[str], metrics: Optional[str]) -> Dict[str, Any]:
    """health and metrics as they came; None where there was no answer."""
    try:
        said = json.loads(health or "")
    except ValueError:
        said = {}  # releases before 0.3.11 say OK
    said = said if isinstance(said, Mapping) else {}
    counted = {METRICS[name]: int(value) for name, _labels, value in samples(metrics or "") if name in METRICS}
    facts: Dict[str, Any] = {
        "role": said.get("role"),
        "state": said.get("ha_state"),
        "service_ready": said.get("service_ready"),
        "leader": said.get("leader_address"),
        **{name: counted.get(name) for name in METRICS.values()},
    }
    # a client that has put nothing yet loses its registration only, and comes back by itself
    known = facts["clients"] is not None and facts["key_count"] is not None
    facts["in_use"] = facts["role"] != STANDBY and (not known or facts["clients"] + facts["key_count"] > 0)
    return facts


def command_of(pid: int, proc: str = "/proc") -> List[str]:
    """The command line of a process that runs; empty when it is gone."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as source:
            return [part.decode(errors="replace") for part in source.read().split(b"\0")[:-1]]
    except OSError:
        return []


def flags(command: Sequence[str]) -> Dict[str, str]:
    """--name=value of a command line, without the dashes."""
    given = (argument[2:].partition("=") for argument in command if argument.startswith("--"))
    return {name: value for name, _equals, value in given}


def place_of(url: str, command: Sequence[str]) -> str:
    """Where metrics and health of the one that runs are; url is where they would be by the plan."""
    given, planned = flags(command), urlsplit(url)
    host = given.get("metrics_host", "0.0.0.0")
    return f"http://{planned.hostname if host == '0.0.0.0' else host}:{given.get('metrics_port') or planned.port}"


def leader_error(facts: Mapping[str, Any], leaders: Mapping[str, str], timeout: float) -> str:
    """Why the planned master that one follows does not serve; empty when it does, and for one that follows none.

    leaders: where each is asked, by what it is called when it leads.
    """
    if facts["role"] != STANDBY or not leaders:
        return ""
    url = leaders.get(facts["leader"])
    if url is None:
        return f"{facts['leader'] or 'nobody'} is none of the planned masters"
    health, why = ask(url, "/health", timeout)
    leads = told(health, None)
    return why or ("" if leads["service_ready"] is True else f"{url}/health: it is {leads['state'] or 'not ready'}")


def settled(facts: Mapping[str, Any], leader_wrong: str) -> bool:
    """Whether waiting longer would change nothing."""
    if not facts["running"] or facts["error"]:
        return False
    if facts["role"] == STANDBY:
        return bool(facts["leader"]) and not leader_wrong
    return facts["role"] is None or facts["service_ready"] is True


def release_of(pid: int, run: Run, proc: str = "/proc") -> Optional[str]:
    """Of a process that runs: what its own program says, else what the plan said when it was started."""
    try:
        program = os.readlink(f"{proc}/{pid}/exe")
        with open(f"{proc}/{pid}/environ", "rb") as source:
            environment = source.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    # what was replaced since says what would run next
    if os.path.basename(program) == "mooncake_master" and os.path.exists(program):
        _code, out, _err = run([program, "--version"])
        match = _RELEASE.search(out)
        if match:
            return match[1]
    return _variable(environment, RELEASE_VARIABLE)


def _variable(environment: Sequence[str], name: str) -> Optional[str]:
    return next((entry.partition("=")[2] for entry in environment if entry.startswith(f"{name}=")), None)
