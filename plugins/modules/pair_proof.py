# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pair_proof
short_description: Prove chosen instances with real requests past the router
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Sends a real request through each API server of the instances under test, together with a healthy server of the
    other kind, and without the router. So instances that were taken out of the router are proven before they go back.
  - Speaks to both as a router does by the O(contract) of their connector. Another contract than that of the running
    engines may harm them. A prefill of contract V(layerwise) dies of a request of contract V(nixl).
  - Proven is what decode counted. The answer must not be empty, every prompt token must have come as external KV, and
    none may have been computed there.
  - Instances of both kinds may be under test. The other kind's instances that are not under test take turns as
    partners; when there are none, those under test are each other's.
  - The partners may serve others meanwhile. When these make decode compute prompts, the proof asks again, up to three
    times.
  - Changes nothing on the hosts. See M(mooncake.pd.kv_proof) for the proof through the router.
attributes:
  check_mode:
    description: Can run in check mode and does the same there.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
options:
  instances:
    description: All prefill and decode instances, as in C(pd_instances).
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
        description: Base URLs of its API servers. They must be reachable from this host.
        type: list
        elements: str
        required: true
      bootstrap_urls:
        description: Base URLs of its bootstrap servers. Contract V(mooncake) needs them, reachable from this host.
        type: list
        elements: str
      shape:
        description: Its sizes and how its ranks run. Not used here.
        type: dict
  names:
    description: Names of the instances under test.
    type: list
    elements: str
    required: true
  exclude:
    description: Names of instances that may be nobody's partner, such as those that are drained.
    type: list
    elements: str
    default: []
  contract:
    description:
      - What the connector of the instances wants to be told with a request, as in C(pd_cluster.router.contract).
      - V(mooncake) is upstream's MooncakeConnector, V(nixl) is NixlConnector and vLLM-Ascend's MooncakeConnectorV1,
        V(layerwise) is vLLM-Ascend's MooncakeLayerwiseConnector.
    type: str
    choices: [mooncake, nixl, layerwise]
    required: true
  model:
    description: Name under which the model is served.
    type: str
    required: true
  prompt:
    description: Text of the question. A random word is put in front of it.
    type: str
    default: the quick brown fox jumps over the lazy dog and runs into the deep forest
  max_tokens:
    description: Tokens to ask for in each answer.
    type: int
    default: 16
  timeout:
    description:
      - Seconds that one request may take, prefill and decode together.
      - After a request that took longer, the other servers of that instance are not asked.
    type: int
    default: 60
  callback_address:
    description:
      - Address of this host to which decode sends its wish for a prefill.
      - Needed by O(contract=layerwise) and unused otherwise.
    type: str
  callback_port:
    description: Port for it while the module runs. V(0) is any free one; name one that firewalls let decode reach.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Prove what was started
  mooncake.pd.pair_proof:
    instances: "{{ pd_instances }}"
    names: [d2]
    contract: "{{ pd_cluster.router.contract }}"
    model: "{{ pd_cluster.model.served_name }}"

- name: The same with vLLM-Ascend's layerwise connector
  mooncake.pd.pair_proof:
    instances: "{{ pd_instances }}"
    names: [p1, d1]
    contract: layerwise
    callback_address: "{{ pd_cluster.router.address }}"
    model: "{{ pd_cluster.model.served_name }}"
"""

RETURN = r"""
requests:
  description: The requests whose proof held.
  returned: when requests were sent
  type: list
  elements: dict
  contains:
    instance:
      description: Name of the instance under test.
      type: str
      sample: d2
    prefill:
      description: Name of the prefill.
      type: str
      sample: p1
    prefill_url:
      description: Base URL of its API server.
      type: str
      sample: http://10.0.0.11:8100
    decode:
      description: Name of the decode.
      type: str
      sample: d2
    decode_url:
      description: Base URL of its API server.
      type: str
      sample: http://10.0.0.22:8200
    prompt_tokens:
      description: Tokens of the prompt.
      type: int
      sample: 21
    by_source:
      description: Prompt tokens that decode counted meanwhile, by where their KV came from.
      type: dict
      sample: {external_kv_transfer: 21, local_cache_hit: 0, local_compute: 0}
    seconds:
      description: How long the request took.
      type: float
      sample: 0.18
    text:
      description: The answer.
      type: str
      sample: " and back"
text:
  description: The last answer, empty when no proof held.
  returned: when requests were sent
  type: str
  sample: " and back"
failures:
  description: What is not proven; the same as in the message.
  returned: when requests were sent
  type: list
  elements: dict
  contains:
    instance:
      description: Name of the instance under test.
      type: str
      sample: d2
    prefill:
      description: Name of the prefill that was asked, V(null) when it did not come to a request.
      type: str
      sample: p1
    decode:
      description: Name of the decode that was asked, V(null) when it did not come to a request.
      type: str
      sample: d2
    error:
      description: At which step it failed, why, and what to do.
      type: str
      sample: "decode d2 (http://10.0.0.22:8200) failed after prefill p1 (http://10.0.0.11:8100) had answered: ..."
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import INSTANCE_OPTIONS, problems_of
from ansible_collections.mooncake.pd.plugins.module_utils.pd_proof import Asked, Outcome, prove_all
from ansible_collections.mooncake.pd.plugins.module_utils.pd_request import DIRECT, LAYERWISE, Metaserver, Through
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import PROMPT, Client


def wrong(params: Dict[str, Any]) -> List[str]:
    """Problems of the parameters beyond types."""
    known = {instance["name"] for instance in params["instances"]}
    problems = problems_of(params["instances"])
    for option in ("names", "exclude"):
        problems += [f"{option}: {name} is no instance" for name in params[option] if name not in known]
    if not params["names"]:
        problems.append("names: nothing is under test. Mend: name the instances to prove")
    problems += [f"{option} must be more than 0" for option in ("max_tokens", "timeout") if params[option] <= 0]
    if params["contract"] == LAYERWISE and not params["callback_address"]:
        problems.append(
            "callback_address: contract layerwise needs it. Mend: name the address where decode reaches this host"
        )
    if params["callback_address"] in ("0.0.0.0", "::"):
        problems.append("callback_address: decode cannot send to a wildcard. Mend: name an address of this host")
    return problems


def run(module: AnsibleModule) -> Outcome:
    params: Dict[str, Any] = module.params
    contract, address, port = (params[name] for name in ("contract", "callback_address", "callback_port"))

    def prove(through: Through) -> Outcome:
        asked = Asked(
            model=params["model"],
            prompt=params["prompt"],
            max_tokens=params["max_tokens"],
            timeout=params["timeout"],
            through=through,
            by_engine=contract == "mooncake",
        )
        return prove_all(Client(params["timeout"]), params["instances"], params["names"], params["exclude"], asked)

    if contract in DIRECT:
        return prove(DIRECT[contract])
    try:
        metaserver = Metaserver(address, port)
    except OSError as error:
        module.fail_json(
            msg=f"cannot listen on {address}:{port} for decode's wishes: {error}. "
            "Mend: let callback_address be this host's, and callback_port free."
        )
    with metaserver:
        return prove(metaserver.through)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instances": INSTANCE_OPTIONS,
            "names": {"type": "list", "elements": "str", "required": True},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "contract": {"type": "str", "choices": [*DIRECT, LAYERWISE], "required": True},
            "model": {"type": "str", "required": True},
            "prompt": {"type": "str", "default": PROMPT},
            # the number of tokens to generate, no secret
            "max_tokens": {"type": "int", "default": 16, "no_log": False},
            "timeout": {"type": "int", "default": 60},
            "callback_address": {"type": "str"},
            "callback_port": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    problems = wrong(module.params)
    if problems:
        module.fail_json(msg="; ".join(problems))
    outcome = run(module)
    result: Dict[str, Any] = {
        "changed": False,
        "requests": outcome.requests,
        "text": outcome.requests[-1]["text"] if outcome.requests else "",
        "failures": outcome.failures,
    }
    if outcome.failures:
        module.fail_json(msg="Not proven: " + " ".join(its["error"] for its in outcome.failures), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
