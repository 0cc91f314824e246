# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask through every server of the instances under test and judge by decode's counters.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import PREFILL
from ansible_collections.mooncake.pd.plugins.module_utils.pd_pairs import (
    OTHER,
    Pair,
    Partners,
    Server,
    pairs_of,
    servers_of,
    with_engines,
)
from ansible_collections.mooncake.pd.plugins.module_utils.pd_request import PairError, Question, Through
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import (
    METRICS_LAG_SECONDS,
    ApiError,
    Client,
    check_text,
)
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import delta, judge_transfer

AT_ONCE = 64
# A server that is asked for its health answers at once, or its engine is not well.
HEALTH_SECONDS = 10.0
# A partner serves others meanwhile, and what these compute on it is counted as well.
TRIES = 3
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Asked:
    """What is asked in every request, and how."""

    model: str
    prompt: str
    max_tokens: int
    timeout: float
    through: Through
    by_engine: bool  # contract mooncake: decode has to be told an engine of prefill


@dataclass
class Outcome:
    requests: List[Dict[str, Any]] = field(default_factory=list)
    failures: List[Dict[str, Any]] = field(default_factory=list)

    def fail(self, instance: str, error: str, pair: Optional[Pair] = None) -> None:
        prefill, decode = (pair.prefill.instance, pair.decode.instance) if pair else (None, None)
        self.failures.append({"instance": instance, "prefill": prefill, "decode": decode, "error": error})


def usable(client: Client, server: Server, by_engine: bool) -> Tuple[List[Server], Optional[str]]:
    """The server, once for each engine behind it where that matters, or why it cannot be asked."""
    try:
        client.read(server.url, "/health", HEALTH_SECONDS)
        if not (by_engine and server.kind == PREFILL):
            return [server], None
        if server.bootstrap is None:
            return [], f"{server} has no bootstrap server in the plan, which contract mooncake needs"
        return with_engines(server, client.engine_ids(server.bootstrap, HEALTH_SECONDS)), None
    except ApiError as error:
        return [], f"{server} cannot be asked: {error}"


def prove(client: Client, pair: Pair, asked: Asked) -> Dict[str, Any]:
    """One request through the pair; PairError unless decode counted the whole prompt as external KV."""
    problems: List[str] = []
    for number in range(1, TRIES + 1):
        try:
            before = client.sources(pair.decode.url)
            prompt = f"{secrets.token_hex(4)}-{number} {asked.prompt}"
            body = {"model": asked.model, "prompt": prompt, "max_tokens": asked.max_tokens}
            began = time.monotonic()
            answer = check_text(pair.decode.url, asked.through(Question(client, body, asked.timeout), pair))
            seconds = round(time.monotonic() - began, 3)
            counted = _counted(client, pair.decode, before, answer.prompt_tokens)
        except ApiError as error:
            raise PairError(f"{pair.decode}: {error}. Mend: see the end of its log.", hung=error.silent) from error
        problems = judge_transfer(answer.prompt_tokens, {pair.decode.instance: counted})
        if not problems:
            return {
                "instance": pair.instance,
                "prefill": pair.prefill.instance,
                "prefill_url": pair.prefill.url,
                "decode": pair.decode.instance,
                "decode_url": pair.decode.url,
                "prompt_tokens": answer.prompt_tokens,
                "by_source": counted,
                "seconds": seconds,
                "text": answer.text,
            }
        if sum(counted.values()) <= answer.prompt_tokens:  # nobody else's
            break
    raise PairError(
        f"{pair.prefill} and {pair.decode}: {'; '.join(problems)}. Mend: start both with the planned "
        "--kv-transfer-config; decode's log tells why it did not use the KV."
    )


def _counted(client: Client, decode: Server, before: Dict[str, float], prompt_tokens: int) -> Dict[str, int]:
    """Prompt tokens that decode counted since, by source."""
    deadline = time.monotonic() + METRICS_LAG_SECONDS
    while True:
        counted = delta(before, client.sources(decode.url))
        if sum(counted.values()) >= prompt_tokens or time.monotonic() > deadline:
            return counted
        time.sleep(POLL_SECONDS)


def prove_all(
    client: Client, instances: Sequence[Dict[str, Any]], names: Sequence[str], exclude: Sequence[str], asked: Asked
) -> Outcome:
    outcome = Outcome()
    kinds = {OTHER[instance["kind"]] for instance in instances if instance["name"] in names}
    wanted = [i for i in instances if i["name"] in names or (i["kind"] in kinds and i["name"] not in exclude)]
    servers = [server for instance in wanted for server in servers_of(instance)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        looked = list(pool.map(lambda server: usable(client, server, asked.by_engine), servers))
    found = [server for several, _why in looked for server in several]
    reasons = [(server, why) for server, (_several, why) in zip(servers, looked) if why]
    partners = Partners(found, names, exclude)
    for name in names:
        for server, why in reasons:
            if server.instance == name:
                outcome.fail(name, f"{why}. Mend: see the end of its log; it must be ready before it is proven.")
        own = [server for server in found if server.instance == name]
        pairs = list(pairs_of(name, own, partners))
        if own and not pairs:
            other = OTHER[own[0].kind]
            why_not = "; ".join(why for server, why in reasons if server.kind == other)
            outcome.fail(
                name,
                f"no {other} can be asked together with {own[0].kind} {name}: {why_not or 'there is none'}. "
                f"Mend: start a {other} that is not excluded.",
            )
        for number, pair in enumerate(pairs, 1):
            try:
                outcome.requests.append(prove(client, pair, asked))
            except PairError as error:
                rest = len(pairs) - number if error.hung else 0
                left = f" Further servers of {name} not asked after that: {rest}." if rest else ""
                outcome.fail(name, f"{error}{left}", pair)
                if error.hung:
                    break
    return outcome
