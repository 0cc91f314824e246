# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_info
short_description: What prefill and decode instances say of themselves
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks every API server of the instances for its health, version, models and metrics, and the bootstrap servers of
    prefills for their engine ids. All of them are asked at the same time.
  - Only reads. Runs anywhere that reaches the servers, normally on the router's host.
  - A server that is down is a fact and no failure. What could not be read is V(null) and named in C(problems).
attributes:
  check_mode:
    description: Can run in check mode and does the same there.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
options:
  instances:
    description: Prefill and decode instances, as in C(pd_instances).
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the instance.
        type: str
        required: true
      kind:
        description: What the instance does.
        type: str
        choices: [prefill, decode]
        required: true
      hosts:
        description: Hosts of the instance. Not used here.
        type: list
        elements: str
      api_urls:
        description: Base URLs of its API servers.
        type: list
        elements: str
        required: true
      bootstrap_urls:
        description: Base URLs of its bootstrap servers, which only prefills with upstream's MooncakeConnector have.
        type: list
        elements: str
      shape:
        description: Its sizes and how its ranks run. Not used here.
        type: dict
  timeout:
    description: Seconds for everything that is asked of one server.
    type: float
    default: 5
"""

EXAMPLES = r"""
- name: Ask all instances
  mooncake.pd.vllm_info:
    instances: "{{ pd_instances }}"
  delegate_to: "{{ groups['router'] | first }}"
  run_once: true
  register: engines

- name: Stop when one of them is not healthy
  ansible.builtin.assert:
    that: engines.instances | rejectattr('healthy') | list == []
    fail_msg: "{{ engines.instances | map(attribute='problems') | flatten | join('; ') }}"
"""

RETURN = r"""
instances:
  description: The instances in the given order.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
      sample: p1
    kind:
      description: V(prefill) or V(decode).
      type: str
      sample: prefill
    healthy:
      description:
        - Whether every API server answers C(/health) with 200.
        - Bootstrap servers do not count, see C(engine_ids).
      type: bool
      sample: true
    running:
      description: Requests that are computed, over all servers. V(null) when one server's are not known.
      type: int
      sample: 3
    waiting:
      description:
        - Requests that wait, over all servers. V(null) when one server's are not known.
        - On decode those too whose KV has not come yet.
      type: int
      sample: 0
    kv_usage:
      description: Share of the KV cache in use, 0 to 1, of the fullest rank. V(null) when one server's is not known.
      type: float
      sample: 0.42
    engine_ids:
      description:
        - What the bootstrap servers call the engines, in the order of servers and ranks. Another id after each start.
        - Empty for instances without bootstrap servers. A prefill that has one cannot be used while it gives no id.
      type: list
      elements: str
      sample: [8d3f0c1e7b6a4f0f9a52c4f1c0f1a7de]
    problems:
      description: What could not be read or is not as it should be. Each begins with its URL.
      type: list
      elements: str
      sample: ["http://10.0.0.12:8100/health cannot be read: [Errno 111] Connection refused"]
    servers:
      description: The API servers, in the order of C(api_urls).
      type: list
      elements: dict
      contains:
        url:
          description: Its base URL, without a slash at the end.
          type: str
          sample: http://10.0.0.11:8100
        healthy:
          description: Whether C(/health) answered 200.
          type: bool
          sample: true
        refused:
          description:
            - Whether the connection was refused. Nothing listens there then, unless a firewall rejects on its behalf.
            - When it is V(false) and C(status) is V(null), nobody knows what the server does.
          type: bool
          sample: false
        status:
          description: Status of C(/health), V(null) when there was no answer. Then nothing else was asked.
          type: int
          sample: 200
        error:
          description: Why it is not healthy, V(null) when it is.
          type: str
          sample:
        version:
          description: Version of vLLM.
          type: str
          sample: 0.32.0
        models:
          description: Names under which it serves models.
          type: list
          elements: str
          sample: [qwen3]
        running:
          description: Requests that are computed.
          type: int
          sample: 3
        waiting:
          description: Requests that wait.
          type: int
          sample: 0
        kv_usage:
          description: Share of the KV cache in use, 0 to 1, of the fullest rank behind this server.
          type: float
          sample: 0.42
        prompt_tokens:
          description:
            - Prompt tokens since the start by where their KV came from.
            - V(null), without a problem, where the release does not tell.
          type: dict
          sample: {external_kv_transfer: 8120, local_cache_hit: 0, local_compute: 0}
        transfers:
          description:
            - KV transfers since the start, C(successful) and C(failed).
            - V(null), without a problem, unless the connector counts them in its metrics as NixlConnector does.
          type: dict
          sample:
        started:
          description:
            - When the API process started, in seconds since 1970.
            - V(null), without a problem, where the metrics lack it, as with several API server processes.
          type: float
          sample: 1790000000.12
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import INSTANCE_OPTIONS, problems_of
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import Client
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_look import look


def main() -> None:
    module = AnsibleModule(
        argument_spec={"instances": INSTANCE_OPTIONS, "timeout": {"type": "float", "default": 5}},
        supports_check_mode=True,
    )
    params: Dict[str, Any] = module.params
    problems = problems_of(params["instances"])
    if params["timeout"] <= 0:
        problems.append("timeout must be more than 0 seconds")
    if problems:
        module.fail_json(msg="; ".join(problems))
    module.exit_json(changed=False, instances=look(Client(params["timeout"]), params["instances"]))


if __name__ == "__main__":
    main()
