# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kv_drained
short_description: Wait until no decode pulls KV from the prefill workers of this host
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - A decode of vLLM 0.32.0 waits for the KV of a request also after its client has gone, and the prefill answers that
    pull only when C(VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT) is over. Neither tells it in its metrics. When the prefill is
    stopped before, the decode takes every pull of the same batch for failed a minute later, also those that had been
    done, and its engine ends with C(AssertionError) at C(assert req_id in self.requests)
    (C(vllm/v1/core/sched/scheduler.py), C(_update_from_kv_xfer_finished)).
  - So before a prefill is stopped that others go on without, this waits for those pulls. Each is a connection to a
    worker of the prefill, whose address the bootstrap server tells.
  - Run it on each host of the prefill, when the routers send nothing new to it. Changes nothing.
options:
  bootstrap_urls:
    description:
      - Base URLs of the bootstrap servers of the instances, as in C(pd_instances). Without any there is nothing to
        wait for; only prefills with upstream's MooncakeConnector have them.
    type: list
    elements: str
    required: true
  timeout:
    description:
      - Seconds to wait, which should be C(VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT) of the prefill. After that it has
        answered each pull, so what is still connected then is told in a warning and not waited for.
      - Where a bootstrap server does not tell the addresses, although something listens there, all of this time passes.
    type: float
    required: true
attributes:
  check_mode:
    description: Can run in check mode. Then it looks once and does not wait.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
seealso:
  - module: mooncake.pd.router_worker
  - module: mooncake.pd.vllm_info
"""

EXAMPLES = r"""
- name: Wait until no decode pulls from p1
  mooncake.pd.kv_drained:
    bootstrap_urls: [http://10.0.0.11:8998]
    timeout: 480
"""

RETURN = r"""
seconds:
  description: How long it waited.
  returned: always
  type: float
  sample: 12.5
pulls:
  description: Pulls that were there at the end, by worker. Empty when all had ended.
  returned: always
  type: dict
  sample: {"10.0.0.11:37011": ["10.0.0.21:34168"]}
unknown:
  description: Why it is not known whether there are pulls, a sentence for each bootstrap server that did not tell.
  returned: always
  type: list
  elements: str
"""

import time
from typing import Any, Dict, List, Set

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import kv_pulls, sockets
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import ApiError, Client

ANSWER_TIMEOUT = 5.0
INTERVAL = 0.5


class Look:
    def __init__(self, urls: List[str]) -> None:
        client = Client(ANSWER_TIMEOUT)
        self.places: Set[kv_pulls.Place] = set()
        self.unknown: List[str] = []
        for url in urls:
            try:
                self.places |= kv_pulls.workers(client, url.rstrip("/"))
            except ApiError as error:
                # nothing runs there, so nothing is pulled either
                if not error.refused:
                    self.unknown.append(str(error))

    def pulls(self) -> Dict[str, List[str]]:
        return kv_pulls.pulls(self.places, lambda ports: sockets.tables(ports=ports)) if self.places else {}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bootstrap_urls": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    params: Dict[str, Any] = module.params
    began = time.monotonic()
    end = began + params["timeout"]
    try:
        look = Look(params["bootstrap_urls"])
        pulls = look.pulls()
        while (pulls or look.unknown) and time.monotonic() < end and not module.check_mode:
            time.sleep(INTERVAL)
            pulls = look.pulls()
    except OSError as error:
        module.fail_json(
            msg=f"It is not known whether a decode pulls from here: {error}. Mend: let root read /proc/net/tcp and"
            " tcp6; stop.yml does without this with -e stop_force=true."
        )
    if not module.check_mode:
        for text in look.unknown:
            module.warn(f"{text}; waited {params['timeout']:g} s, in which a prefill answers every pull")
        for worker, peers in pulls.items():
            module.warn(
                f"{', '.join(peers)} still waits for {worker} after {params['timeout']:g} s and goes on without"
            )
    module.exit_json(changed=False, seconds=round(time.monotonic() - began, 1), pulls=pulls, unknown=look.unknown)


if __name__ == "__main__":
    main()
