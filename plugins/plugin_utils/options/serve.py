# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of `vllm serve`: which release takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.vllm import spelling
from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.additional import check_additional_config
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import vllm_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# vllm/engine/arg_utils.py and vllm/entrypoints/openai/cli_args.py in the source packages

_EPLB = "write --eplb-config."
_SOURCE_ARGUMENTS = "vllm/engine/arg_utils.py in the source packages of vLLM"
# option -> (first release of vLLM that no longer takes it, way out)
DEAD_OPTIONS = {
    "--device": ("0.10.0", "leave it out."),
    "--enable-reasoning": ("0.10.0", "leave it out; --reasoning-parser is enough."),
    "--use-v2-block-manager": ("0.10.0", "leave it out."),
    "--num-scheduler-steps": ("0.10.1", "leave it out."),
    "--enable-prompt-adapter": ("0.10.2", "leave it out."),
    "--disable-async-output-proc": ("0.11.0", "leave it out."),
    "--max-seq-len-to-capture": ("0.11.0", "write --cudagraph-capture-sizes, or --cuda-graph-sizes before 0.11.1."),
    "--preemption-mode": ("0.11.0", "leave it out."),
    "--scheduler-delay-factor": ("0.11.0", "leave it out."),
    "--enable-lora-bias": ("0.11.1", "leave it out."),
    "--rope-scaling": ("0.11.1", "write it into --hf-overrides."),
    "--rope-theta": ("0.11.1", "write it into --hf-overrides."),
    "--eplb-log-balancedness": ("0.12.0", _EPLB),
    "--eplb-step-interval": ("0.12.0", _EPLB),
    "--eplb-window-size": ("0.12.0", _EPLB),
    "--num-redundant-experts": ("0.12.0", _EPLB),
    "--guided-decoding-backend": ("0.12.0", "write --structured-outputs-config."),
    "--lora-extra-vocab-size": ("0.12.0", "leave it out."),
    "--num-lookahead-slots": ("0.12.0", "leave it out."),
    "--override-pooler-config": ("0.12.0", "write --pooler-config."),
    "--cuda-graph-sizes": ("0.13.0", "write --cudagraph-capture-sizes."),
    "--disable-mm-preprocessor-cache": ("0.13.0", "write --mm-processor-cache-gb 0."),
    "--enable-multimodal-encoder-data-parallel": ("0.13.0", "write --mm-encoder-tp-mode data."),
    "--task": ("0.13.0", "write --runner and --convert."),
    "--disable-log-requests": ("0.17.0", "leave it out; requests are logged only with --enable-log-requests."),
    "--logits-processor-pattern": ("0.17.0", "leave it out."),
    "--swap-space": ("0.18.0", "leave it out."),
    "--max-long-partial-prefills": ("0.27.0", "leave it out."),
    "--max-num-partial-prefills": ("0.27.0", "leave it out."),
    "--calculate-kv-scales": ("0.28.0", "leave it out."),
    "--override-attention-dtype": ("0.28.0", "leave it out."),
}
# option -> first release of vLLM that takes it
YOUNG_OPTIONS = {
    "--async-scheduling": "0.10.0",
    "--decode-context-parallel-size": "0.10.2",
    "--all2all-backend": "0.11.1",
    "--cudagraph-capture-sizes": "0.11.1",
    "--prefill-context-parallel-size": "0.12.0",
    "--attention-backend": "0.13.0",
    "--profiler-config": "0.13.0",
    "--shutdown-timeout": "0.18.0",
    "--spec-tokens": "0.22.0",
}
_ADDITIONAL = "--additional-config"
_SPECULATIVE = ("--speculative-config", "-sc")  # -sc since 0.22.0
_SPECULATIVE_TOKENS = "num_speculative_tokens"
_JSON_OPTIONS = (_ADDITIONAL, *_SPECULATIVE)


def speculative_tokens(args: Sequence[str]) -> int | None:
    """num_speculative_tokens of the last option that gives it."""
    found: int | None = None
    for option in _options(args):
        if option.name in _SPECULATIVE and not option.below:
            config = _object(option.value)
            given: Any = config.get(_SPECULATIVE_TOKENS) if config else None
        elif option.name == "--spec-tokens" or (
            option.name in _SPECULATIVE and option.below.replace("-", "_") == _SPECULATIVE_TOKENS
        ):
            given = option.value
        else:
            continue
        if isinstance(given, str):
            given = whole(given)
        if isinstance(given, int):
            found = given
    return found


def check_options(args: Sequence[str], vllm: str) -> list[Finding]:
    """Options that a release of vLLM does not take."""
    return [finding for option in _options(args) for finding in _check_option(option.name, vllm)]


def check_arguments(args: Sequence[str], version: str, side: str | None = None) -> list[Finding]:
    """Options that the vLLM of a release of vLLM-Ascend does not take, and what is wrong with --additional-config."""
    found = check_options(args, vllm_of(version))
    for option in _options(args):
        if option.name in _JSON_OPTIONS and not option.below:
            config = _object(option.value)
            if config is None:
                found.append(_no_json(option.name))
            elif option.name == _ADDITIONAL:
                found += check_additional_config(config, side, version)
    return found


@dataclass(frozen=True)
class _Option:
    name: str
    below: str  # of --option.below
    value: str


def _options(args: Sequence[str]) -> Iterator[_Option]:
    for place, argument in enumerate(args):
        if not argument.startswith("-"):
            continue
        name, value = spelling(argument)
        if value is None:
            value = args[place + 1] if place + 1 < len(args) else ""
        yield _Option(name, argument.partition("=")[0].partition(".")[2], value)


def _object(text: str) -> dict[str, Any] | None:
    try:
        config = json.loads(text)
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def _check_option(name: str, vllm: str) -> list[Finding]:
    if name in DEAD_OPTIONS:
        until, fix = DEAD_OPTIONS[name]
        if at_least(vllm, until):
            message = f"vLLM takes no {name} since {until}, and {vllm} ends with an error."
            return [Finding("option-dead", "error", message, fix, _SOURCE_ARGUMENTS)]
    since = YOUNG_OPTIONS.get(name)
    if since and not at_least(vllm, since):
        message = f"vLLM takes no {name} before {since}, and {vllm} ends with an error."
        return [Finding("option-too-old", "error", message, "leave it out.", _SOURCE_ARGUMENTS)]
    return []


def _no_json(name: str) -> Finding:
    return Finding(
        "option-json",
        "error",
        f"the value of {name} is no object of JSON, and vLLM ends with an error.",
        f"write {name} '{{\"key\": value}}', names in double quotes.",
        _SOURCE_ARGUMENTS,
    )
