# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `vllm serve` that guides of P/D disaggregation use, by release, and how argparse judges them.

Every option here is in `vllm serve --help=all` of vLLM 0.32.0 or names the release that dropped it
(tests/integration/twin compares). Releases are vLLM's; where only `since` is given, the option is known from then on.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .state import since


@dataclass(frozen=True)
class Option:
    names: tuple[str, ...]
    kind: str  # int, float, str, json, words, flag, bool (--x and --no-x), memory
    default: Any = None
    first: str = "0.0"
    dropped: str | None = None


def _o(names: str, kind: str, default: Any = None, first: str = "0.0", dropped: str | None = None) -> Option:
    return Option(tuple(names.split()), kind, default, first, dropped)


TABLE = (
    # frontend
    _o("--host", "str"),
    _o("--port", "int", 8000),
    _o("--api-server-count -asc", "int"),
    _o("--headless", "flag", False),
    _o("--api-key", "words"),
    _o("--uvicorn-log-level", "str", "info"),
    _o("--chat-template", "str"),
    _o("--default-chat-template-kwargs", "json", first="0.13.0"),  # first: not checked
    _o("--tool-call-parser", "str"),
    _o("--enable-auto-tool-choice", "flag", False),
    _o("--allowed-local-media-path", "str"),
    _o("--disable-log-stats", "flag", False),
    _o("--shutdown-timeout", "int", 0, first="0.18.0"),  # vllm pull request 34730
    # parallel
    _o("--data-parallel-size -dp", "int", 1),
    _o("--data-parallel-size-local -dpl", "int"),
    _o("--data-parallel-start-rank -dpr", "int"),
    _o("--data-parallel-rank -dpn", "int"),
    _o("--data-parallel-address -dpa", "str"),
    _o("--data-parallel-rpc-port -dpp", "int", 29550),
    _o("--data-parallel-backend -dpb", "str", "mp"),
    _o("--data-parallel-hybrid-lb -dph", "bool", False),
    _o("--data-parallel-external-lb -dpe", "bool", False, first="0.15.0"),  # first: not checked
    _o("--tensor-parallel-size -tp", "int", 1),
    _o("--pipeline-parallel-size -pp", "int", 1),
    _o("--prefill-context-parallel-size -pcp", "int", 1, first="0.12.0"),
    _o("--decode-context-parallel-size -dcp", "int", 1),
    _o("--cp-kv-cache-interleave-size", "int", 1, first="0.12.0"),
    _o("--enable-expert-parallel -ep", "bool", False),
    _o("--enable-eplb", "bool", False),
    _o("--eplb-config", "json"),
    _o("--enable-ep-weight-filter", "bool", False, first="0.18.0"),  # first: not checked
    _o("--distributed-executor-backend", "str"),
    _o("--nnodes -n", "int", 1, first="0.12.0"),
    _o("--node-rank -r", "int", 0, first="0.12.0"),
    _o("--master-addr", "str", "127.0.0.1", first="0.12.0"),
    _o("--master-port", "int", 29501, first="0.12.0"),
    # model
    _o("--model", "str"),
    _o("--served-model-name", "words"),
    _o("--tokenizer", "str"),
    _o("--tokenizer-mode", "str"),
    _o("--trust-remote-code", "bool", False),
    _o("--dtype", "str", "auto"),
    _o("--seed", "int", 0),
    _o("--max-model-len", "memory"),
    _o("--quantization -q", "str"),
    _o("--enforce-eager", "bool", False),
    _o("--load-format", "str"),
    _o("--safetensors-load-strategy", "str", first="0.11.0"),
    _o("--model-loader-extra-config", "json"),
    _o("--hf-overrides", "json"),
    _o("--generation-config", "str"),
    _o("--runner", "str"),
    _o("--task", "str", dropped="0.12.0"),  # dropped: by 0.32.0, since when was not checked
    _o("--reasoning-parser", "str"),
    _o("--limit-mm-per-prompt", "json"),
    _o("--mm-processor-cache-gb", "float"),
    _o("--mm-encoder-tp-mode", "str"),
    _o("--skip-mm-profiling", "bool", False),
    _o("--language-model-only", "bool", False, first="0.15.0"),  # first: not checked
    _o("--enable-sleep-mode", "bool", False),
    _o("--enable-lora", "bool", False),
    # cache and scheduler
    _o("--block-size", "int", 128),
    _o("--gpu-memory-utilization", "float", 0.9),
    _o("--kv-cache-memory-bytes", "memory", first="0.11.0"),
    _o("--swap-space", "float", dropped="0.16.0"),  # dropped: by 0.32.0, since when was not checked
    _o("--enable-prefix-caching", "bool"),
    _o("--mamba-ssm-cache-dtype", "str"),
    _o("--max-num-batched-tokens", "memory"),
    _o("--max-num-seqs", "int", 256),
    _o("--enable-chunked-prefill", "bool"),
    _o("--long-prefill-token-threshold", "int"),
    _o("--async-scheduling", "bool"),
    _o("--disable-hybrid-kv-cache-manager", "bool"),
    # configurations
    _o("--compilation-config -cc", "json"),
    _o("--speculative-config -sc", "json"),
    _o("--additional-config", "json"),
    _o("--kv-transfer-config", "transfer"),
    _o("--profiler-config", "json", first="0.13.0"),  # first: not checked
)

_USAGE = "usage: vllm serve [model_tag] [options]"


def _memory(text: str) -> int:
    """4096, 64K, 1.5G: vLLM's integers with a unit; a small letter means powers of ten."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}")
    power = "kmgt".index(match[2].lower()) + 1 if match[2] else 0
    return int(float(match[1]) * (1000 if match[2].islower() else 1024) ** power)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>: {error}") from error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        unknown = message.startswith("unrecognized arguments")
        print("usage: vllm [-h] [-v] {chat,complete,serve,bench} ..." if unknown else _USAGE, file=sys.stderr)
        print(f"vllm{'' if unknown else ' serve'}: error: {message}", file=sys.stderr)
        sys.exit(2)


def _spelling(argument: str) -> str:
    """vLLM takes --max-num_seqs for --max-num-seqs, also in front of an equals sign."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def known(release: str) -> tuple[Option, ...]:
    return tuple(
        o for o in TABLE if since(release, o.first) and not (o.dropped is not None and since(release, o.dropped))
    )


def parse(arguments: Sequence[str], release: str, transfer: Callable[[str], Any] = json.loads) -> argparse.Namespace:
    """Options of `vllm serve`; what vLLM would refuse ends this process with code 2. `transfer` reads
    --kv-transfer-config and raises argparse.ArgumentTypeError."""
    parser = _Parser(prog="vllm serve", add_help=False)
    parser.add_argument("model_tag", nargs="?")
    kinds: dict[str, Any] = {"int": int, "float": float, "str": str, "json": _json, "memory": _memory}
    for option in known(release):
        if option.kind == "flag":
            parser.add_argument(*option.names, action="store_true", default=option.default)
        elif option.kind == "bool":
            parser.add_argument(*option.names, action=argparse.BooleanOptionalAction, default=option.default)
        elif option.kind == "words":
            parser.add_argument(*option.names, nargs="+", default=option.default)
        elif option.kind == "transfer":
            parser.add_argument(*option.names, type=transfer, default=option.default)
        else:
            parser.add_argument(*option.names, type=kinds[option.kind], default=option.default)
    args = parser.parse_args([_spelling(argument) for argument in arguments])
    if args.model is not None and args.model_tag is not None:
        parser.error(f"unrecognized arguments: {args.model_tag}")  # so says 0.32.0 when it is told both
    return args
