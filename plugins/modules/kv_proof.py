# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kv_proof
short_description: Prove that KV moves from prefill to decode
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks short completions through the router and compares what the decode instances counted with what was asked.
  - A status code proves nothing. The answer must not be empty, every prompt token must have come to decode as
    external KV, and none may have been computed there.
  - Each prompt begins with a random word, so that no prefix cache can answer in place of a transfer.
  - Goes on until every prefill and every decode instance has taken part.
  - Then abandons a streamed request in the middle and asks again, since an abandoned request must not block the path.
  - Asks once, and when an instance took no part, goes on with several requests at once.
  - Sends real requests but changes nothing on the host. Requests of other clients at the same time do not disturb
    the proof, as long as they too go through prefill.
attributes:
  check_mode:
    description: Can run in check mode and does the same there.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
options:
  url:
    description: Base URL of the router that clients use, such as V(http://10.0.0.1:8000).
    type: str
    required: true
  model:
    description: Name under which the model is served.
    type: str
    required: true
  api_key:
    description: Key that the router asks for, if it does.
    type: str
  validate_certs:
    description: Whether the router's certificate must be valid for the name in O(url), where that is V(https://).
    type: bool
    default: true
  instances:
    description: Prefill and decode instances behind the router, as in C(pd_instances).
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
        description: Base URLs of its bootstrap servers. Not used here.
        type: list
        elements: str
      shape:
        description: Its sizes and how its ranks run. Not used here.
        type: dict
  prompt:
    description: Text of the question. A random word is put in front of it.
    type: str
    default: the quick brown fox jumps over the lazy dog and runs into the deep forest
  max_tokens:
    description: Tokens to ask for in each answer.
    type: int
    default: 16
  compare:
    description:
      - Whether the answer at temperature 0 must equal the one that prefill gives alone.
      - Only engines that compute deterministically can pass.
    type: bool
    default: false
  abort_timeout:
    description: Seconds within which the path must answer again after an abandoned request.
    type: int
    default: 60
  timeout:
    description: Seconds that one request may take.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Prove that KV moves
  mooncake.pd.kv_proof:
    url: http://10.0.0.10:8000
    model: qwen3
    instances:
      - {name: p1, kind: prefill, api_urls: ["http://10.0.0.11:8100"]}
      - {name: d1, kind: decode, api_urls: ["http://10.0.0.21:8200"]}
    compare: false
  register: proof

- name: Show where the prompt came from
  ansible.builtin.debug:
    var: proof.by_source
"""

RETURN = r"""
question:
  description: Prompt of the last request.
  returned: once a request was answered
  type: str
  sample: 3f9a01c2-1 the quick brown fox
answer:
  description: Text of the last answer.
  returned: once a request was answered
  type: str
  sample: " jumps over"
requests:
  description: Requests sent through the router until every instance had taken part.
  returned: once a request was answered
  type: int
  sample: 2
prompt_tokens:
  description: Prompt tokens of these requests together.
  returned: once a request was answered
  type: int
  sample: 74
by_source:
  description: Prompt tokens that the decode instances counted meanwhile, by where their KV came from.
  returned: once a request was answered
  type: dict
  sample: {external_kv_transfer: 74, local_compute: 0}
by_instance:
  description: The same for each instance. A prefill instance computes its tokens locally, as it should.
  returned: once a request was answered
  type: dict
  sample: {p1: {local_compute: 74}, d1: {external_kv_transfer: 74, local_compute: 0}}
matches_prefill:
  description: Whether the answer equals that of prefill alone. V(null) when it was not compared.
  returned: once a request was answered
  type: bool
  sample: true
recovered_seconds:
  description: Seconds from abandoning a streamed request to the next complete answer.
  returned: when the first part of the proof held
  type: float
  sample: 0.4
curl:
  description: A command line to try the service by hand.
  returned: always
  type: str
  sample: curl http://10.0.0.10:8000/v1/completions ...
"""

import json
import secrets
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import INSTANCE_OPTIONS
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import (
    BROKEN,
    COMPLETIONS,
    METRICS_LAG_SECONDS,
    PROMPT,
    ApiError,
    Client,
    Completion,
    check_text,
    reason,
)
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import EXTERNAL, delta, judge_transfer

# Requests, and readings of /metrics, at the same time. The proof is no load test, and each takes a thread and a
# connection; up to 16 APIs of a kind are reached through two proxies that look for the least load each by themselves.
AT_ONCE = 32
# The proof cannot go on; the text says why.
ProofError = ApiError


class Service:
    """The service as its clients and its operator see it."""

    def __init__(self, params: Dict[str, Any]) -> None:
        self.url: str = params["url"].rstrip("/")
        self.model: str = params["model"]
        self.client = Client(params["timeout"], params["validate_certs"])
        self.api_key: Optional[str] = params["api_key"]

    def completion(self, base: str, prompt: str, max_tokens: int, stream: bool = False) -> Any:
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": stream}
        # the router's, no business of the instances
        headers = {"Authorization": "Bearer " + self.api_key} if self.api_key and base == self.url else {}
        return (self.client.begin if stream else self.client.complete)(base, body, headers)

    def ask(self, base: str, prompt: str, max_tokens: int) -> Completion:
        """Answer, checked for substance."""
        completion: Completion = self.completion(base, prompt, max_tokens)
        return check_text(base, completion)

    def sources_of(self, instance: Dict[str, Any], base: str) -> Dict[str, float]:
        try:
            return self.client.sources(base, required=instance["kind"] == "decode")
        except ApiError as error:
            raise ProofError(f"{instance['kind']} {instance['name']}: {error}") from error

    def sources(self, instances: List[Dict[str, Any]]) -> Dict[str, Dict[str, float]]:
        """Prompt tokens of each instance by source. Of several errors that of the first instance is raised."""
        apis = [(instance, base) for instance in instances for base in instance["api_urls"]]
        found: Dict[str, Dict[str, float]] = {instance["name"]: {} for instance in instances}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for (instance, _base), counts in zip(apis, pool.map(lambda api: self.sources_of(*api), apis)):
                sums = found[instance["name"]]
                for source, value in counts.items():
                    sums[source] = sums.get(source, 0.0) + value
        return found


def ask_at_once(service: Service, prompts: List[str], max_tokens: int) -> List[Completion]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda prompt: service.ask(service.url, prompt, max_tokens), prompts))


def prove_transfer(service: Service, params: Dict[str, Any], result: Dict[str, Any]) -> List[str]:
    """Ask until every instance took part; fills result, returns problems."""
    instances: List[Dict[str, Any]] = params["instances"]
    before = service.sources(instances)
    apis = max(sum(len(i["api_urls"]) for i in instances if i["kind"] == kind) for kind in ("prefill", "decode"))
    # A router that goes round meets every API after as many requests, twice that leaves room for others' requests. One
    # that looks for the least load, as vLLM-Ascend's proxies do, gives one request after the other to the first API,
    # so all but the first go out together.
    together = min(2 * apis, AT_ONCE)
    limit = max(1 + 4 * together, 2 * apis)
    nonce = secrets.token_hex(4)
    result.update(requests=0, prompt_tokens=0, matches_prefill=None)
    while True:
        first = result["requests"] + 1
        count = together if result["requests"] else 1
        prompts = [f"{nonce}-{number} {params['prompt']}" for number in range(first, first + count)]
        answers = ask_at_once(service, prompts, params["max_tokens"])
        prompt, answer = prompts[-1], answers[-1]
        result.update(question=prompt, answer=answer.text, requests=result["requests"] + count)
        result["prompt_tokens"] += sum(item.prompt_tokens for item in answers)
        deadline = time.monotonic() + METRICS_LAG_SECONDS
        while True:
            counts = {name: delta(before[name], after) for name, after in service.sources(instances).items()}
            decodes = {i["name"]: counts[i["name"]] for i in instances if i["kind"] == "decode"}
            external = sum(c.get(EXTERNAL, 0) for c in decodes.values())
            if external >= result["prompt_tokens"] or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        result["by_instance"] = counts
        result["by_source"] = {
            source: sum(c.get(source, 0) for c in decodes.values()) for source in sorted(set().union(*decodes.values()))
        }
        problems = judge_transfer(result["prompt_tokens"], decodes)
        idle = [name for name, c in counts.items() if not any(c.values())]
        if problems or not idle or result["requests"] >= limit:
            break
    for name in [] if problems else idle:
        problems.append(
            f"{name} took no part in {result['requests']} requests: it is not behind the router, "
            "or the router holds it for dead"
            + (f", or {together} requests at once are too few to reach it" if together < 2 * apis else "")
        )
    if params["compare"] and not problems:
        prefill = next(i for i in instances if i["kind"] == "prefill")
        alone = service.ask(prefill["api_urls"][0], prompt, params["max_tokens"]).text
        result["matches_prefill"] = alone == answer.text
        if not result["matches_prefill"]:
            problems.append(
                f"prefill {prefill['name']} alone answers {alone!r}, the router {answer.text!r}: "
                "decode worked on other KV, or the two hold different weights"
            )
    return problems


def prove_cancel(service: Service, params: Dict[str, Any], result: Dict[str, Any]) -> List[str]:
    """Abandon a streamed request, then the path must answer again in time."""
    stream = service.completion(service.url, result["question"] + " again", 256, stream=True)
    try:
        begun = stream.read(1)
    except BROKEN as error:
        return [f"{service.url}{COMPLETIONS} does not stream: {reason(error)}"]
    finally:
        stream.close()
    if not begun:
        return [f"{service.url}{COMPLETIONS} does not stream: the answer was 200 and empty"]
    started = time.monotonic()
    service.client.timeout = params["abort_timeout"]
    try:
        answer = service.ask(service.url, result["question"], params["max_tokens"])
    except ProofError as error:
        return [f"after an abandoned request the same path is blocked: {error}"]
    result["recovered_seconds"] = round(time.monotonic() - started, 3)
    if params["compare"] and answer.text != result["answer"]:
        return [f"after an abandoned request the same question is answered differently: {answer.text!r}"]
    return []


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "model": {"type": "str", "required": True},
            "api_key": {"type": "str", "no_log": True},
            "validate_certs": {"type": "bool", "default": True},
            "instances": INSTANCE_OPTIONS,
            "prompt": {"type": "str", "default": PROMPT},
            # the number of tokens to generate, no secret
            "max_tokens": {"type": "int", "default": 16, "no_log": False},
            "compare": {"type": "bool", "default": False},
            "abort_timeout": {"type": "int", "default": 60},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    params: Dict[str, Any] = module.params
    service = Service(params)
    body = json.dumps({"model": params["model"], "prompt": params["prompt"], "max_tokens": params["max_tokens"]})
    curl = ["curl", service.url + COMPLETIONS, "-H", "Content-Type: application/json", "-d", body]
    if params["api_key"]:
        curl[2:2] = ["-H", "Authorization: Bearer <key>"]
    result: Dict[str, Any] = {"changed": False, "curl": " ".join(shlex.quote(word) for word in curl)}
    kinds = {i["kind"] for i in params["instances"]}
    if kinds != {"prefill", "decode"}:
        module.fail_json(msg="instances must hold at least one prefill and one decode instance", **result)
    try:
        problems = prove_transfer(service, params, result) or prove_cancel(service, params, result)
    except ProofError as error:
        problems = [str(error)]
    if problems:
        module.fail_json(msg="KV transfer is not proven: " + "; ".join(problems), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
