# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `vllm serve` takes and writes, whatever the hardware."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils import mooncake
from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import pools
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import Claim, exact
from ansible_collections.mooncake.pd.plugins.plugin_utils.process import Health, LogLine
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import PREFILL, Instance, Topology
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import POOL_HASH_SEED
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

# nothing on a server of a closed network may wait for a hub or report home; an unbuffered log shows the last line
ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# the key of each; they make a new release a new unit, see mooncake.RELEASE_VARIABLE
_ENGINE_RELEASE = "MOONCAKE_PD_ENGINE"
RELEASE_VARIABLES = {_ENGINE_RELEASE: "engine.version", mooncake.RELEASE_VARIABLE: "mooncake.version"}

# What the plan writes itself. Given a second time the last one would win, and ports, claims and peers would be wrong.
PLANNED_ARGUMENTS = {
    "--host": "hosts.<name>.address",
    "--port": "api_port",
    "--served-model-name": "model.served_name",
    "--model": "model.path",
    "--kv-transfer-config": "connector",
    "--tensor-parallel-size": "tp",
    "-tp": "tp",
    "--data-parallel-size": "dp",
    "-dp": "dp",
    "--data-parallel-rank": "dp",
    "-dpn": "dp",
    "--data-parallel-address": "dp",
    "-dpa": "dp",
    "--data-parallel-rpc-port": "dp_rpc_port",
    "-dpp": "dp_rpc_port",
    "--data-parallel-size-local": "dp and hosts",
    "-dpl": "dp and hosts",
    "--data-parallel-start-rank": "dp and hosts",
    "-dpr": "dp and hosts",
    "--headless": "hosts and data_parallel",
    "--pipeline-parallel-size": "pp",
    "-pp": "pp",
    "--prefill-context-parallel-size": "pcp",
    "-pcp": "pcp",
    "--decode-context-parallel-size": "dcp",
    "-dcp": "dcp",
    "--shutdown-timeout": "drain_timeout",
}
# Shapes that the plan does not know: they would move ports that other processes claim.
UNPLANNED_ARGUMENTS = (
    "--data-parallel-hybrid-lb",
    "--data-parallel-external-lb",
    "--data-parallel-backend",
    "-dpb",
    "-dph",
    "-dpe",
    "--data-parallel-multi-port-external-lb",
    "-dpm",
    "--data-parallel-supervisor-port",
    "--nnodes",
    "-n",
    "--node-rank",
    "-r",
    "--grpc-port",
)
_TLS = (
    "makes the API speak https, but the plan speaks http: routers, checks and the proof could not connect.",
    "remove it; TLS for clients is the router's, see router_tls_certificate.",
)
_ELSEWHERE = (
    "takes the API away from api_port, where the router and the checks look for it.",
    "remove it.",
)
_KEY = (
    "makes the API refuse whoever brings no key, and the routers bring none.",
    "remove it; keys of clients are the router's, see router_api_keys.",
)
# What would break the plan in another way -> how, and the way out.
REFUSED_ARGUMENTS = {
    "--": (
        "ends the options, so --kv-transfer-config, which the plan writes behind it, would be none any more.",
        "remove it.",
    ),
    "--api-key": _KEY,
    "--config": (
        "reads more options from a file that the plan cannot see: ports, shape and connector could be others there.",
        "write the options of that file here, one by one.",
    ),
    "--disable-log-stats": (
        "takes away the metrics that tell where a prompt came from, so that nothing could be proven.",
        "remove it.",
    ),
    "--grpc": _ELSEWHERE,
    "--ssl-ca-certs": _TLS,
    "--ssl-cert-reqs": _TLS,
    "--ssl-certfile": _TLS,
    "--ssl-ciphers": _TLS,
    "--ssl-keyfile": _TLS,
    "--uds": _ELSEWHERE,
}
REFUSED_VARIABLES = {"VLLM_API_KEY": _KEY}
# They decide whether the lines are written by which a start is proven.
LOG_LEVEL_ARGUMENTS = ("--uvicorn-log-level", "--log-level")
LOG_LEVEL_VARIABLES = ("VLLM_LOGGING_LEVEL",)
_API_SERVERS = ("--api-server-count", "-asc")
# all that the plan has to recognise
_RECOGNISED = (
    *PLANNED_ARGUMENTS,
    *UNPLANNED_ARGUMENTS,
    *REFUSED_ARGUMENTS,
    *LOG_LEVEL_ARGUMENTS,
    *_API_SERVERS,
)

# vllm#34730, released with 0.18.0; before it a stop always aborts the requests in flight
_SHUTDOWN_TIMEOUT_SINCE = "0.18.0"
# beyond --shutdown-timeout the workers need up to 15 s more to end (seen with 0.32.0)
STOP_MARGIN = 30

# uvicorn's line of an API server: without a prefix, or with the prefix of the API server's process. Workers print the
# same line behind their own prefix when they run a server of their own.
API_READY = r"^(\((APIServer|ApiServer_\d+) pid=\d+\) *)?[^(]*Application startup complete\."


def spelling(argument: str) -> tuple[str, str | None]:
    """Name and value of an argument: also of --opt=value, --opt.key, --with_underscores and -tp4."""
    name, equals, value = argument.partition("=")
    name = name.split(".", 1)[0]
    if name.startswith("--"):
        name = name.replace("_", "-")
    elif glued := re.fullmatch(r"(-[a-z]+)(\d+)", name):
        return glued[1], glued[2]
    return name, value if equals else None


# short for options on which instances have to agree (vllm/engine/arg_utils.py)
_LONG = {"-q": "--quantization", "-ep": "--enable-expert-parallel"}


def options(arguments: Iterable[str]) -> dict[str, str]:
    """Every option with the value that wins; behind a switch stands whatever follows it."""
    found = {}
    for argument, following in pairwise((*arguments, "")):
        name, value = spelling(argument)
        if name.startswith("-"):
            found[_LONG.get(name, name)] = following if value is None else value
    return found


def beginning_of(name: str) -> list[str]:
    """What an option is short for, when the plan has to recognise it. argparse, and so vLLM, takes --por for --port."""
    if name in _RECOGNISED or not re.match(r"--?[a-z]", name):
        return []
    return [option for option in _RECOGNISED if option.startswith(name)]


def kv_event_claims(arguments: tuple[str, ...], first_rank: int, ranks: int, where: str) -> tuple[Claim, ...]:
    """Each rank publishes KV events on the port of the endpoint plus its own number (vllm/distributed/kv_events.py).

    Events are off by default, and with them on, every instance takes the same port by default (vllm#20965, #25059).
    """
    try:
        config = json.loads(options(arguments).get("--kv-events-config", "{}"))
    except ValueError:
        return ()  # the engine says so itself
    if not isinstance(config, dict) or not config.get("enable_kv_cache_events"):
        return ()
    claims = []
    for key, default in (("endpoint", "tcp://*:5557"), ("replay_endpoint", None)):
        found = re.fullmatch(r"tcp://(\*|[\d.]+):(\d+)", str(config.get(key, default)))
        if found:
            address = "0.0.0.0" if found[1] == "*" else found[1]
            port = int(found[2])
            claims.append(exact("kv-events", address, port, where, size=ranks, offset=first_rank, held=False))
    return tuple(claims)


def hides_lines(level: str) -> bool:
    return level.lower() in ("warning", "warn", "error", "critical", "fatal")


def url(address: str, port: int, path: str = "") -> str:
    return f"http://{address}:{port}{path}"


def environment(topology: Topology, instance: Instance, planned: Mapping[str, str]) -> dict[str, str]:
    """Defaults, then the operator's, then what only the plan may decide; sorted, so that the unit never flaps."""
    merged = {**shared_environment(topology), **instance.environment, **planned}
    return dict(sorted(merged.items()))


def shared_environment(topology: Topology) -> dict[str, str]:
    """What the engines of all instances have in common, unless an instance says otherwise."""
    releases = {
        _ENGINE_RELEASE: f"{topology.engine.kind} {topology.engine.version}",
        mooncake.RELEASE_VARIABLE: topology.mooncake.version,
    }
    return dict(sorted({**ENVIRONMENT, **topology.engine_environment, **releases}.items()))


def command(
    topology: Topology,
    listen: tuple[str, int] | None,
    transfer: str,
    sizes: tuple[str, ...],
    arguments: tuple[str, ...],
) -> tuple[str, ...]:
    """listen: address and port of the API, None where there is none."""
    model = topology.model
    drain = ("--shutdown-timeout", str(topology.drain_timeout))
    return (
        *("vllm", "serve", model.path, "--served-model-name", model.served_name),
        *(("--host", listen[0], "--port", str(listen[1])) if listen else ()),
        *sizes,
        *(drain if at_least(topology.engine.version, _SHUTDOWN_TIMEOUT_SINCE) else ()),
        *arguments,
        *("--kv-transfer-config", transfer),
    )


def json_text(config: Any) -> str:
    return json.dumps(config, separators=(",", ":"))


def arguments(topology: Topology, instance: Instance) -> tuple[str, ...]:
    """What the operator adds, the instance's own last, so that it wins."""
    return (*topology.engine_args, *instance.args)


def role(kind: str) -> str:
    return "kv_producer" if kind == PREFILL else "kv_consumer"


def transfer_config(topology: Topology, instance: Instance, **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"kv_connector": topology.connector.name, "kv_role": role(instance.kind)}
    if instance.kv_load_failure_policy:
        config["kv_load_failure_policy"] = instance.kv_load_failure_policy
    return {**config, **more}


def hash_seed(topology: Topology, instance: Instance) -> dict[str, str]:
    """Keys of a pool are hashes, which Python else salts anew in every process. What the operator gives stays."""
    name, seed = POOL_HASH_SEED
    pooled = any(pools(item) for item in topology.connector.also)
    return {name: seed} if pooled and name not in {**topology.engine_environment, **instance.environment} else {}


def multi_connector(config: dict[str, Any], beside: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One that moves KV, and what stands beside it.

    Both keys that go outside are read of the outermost configuration. vLLM gives the id to every inner one itself, and
    ends with a TypeError when one has it already (vllm/distributed/kv_transfer/kv_connector/v1/multi_connector.py).
    """
    if not beside:
        return config
    outer: dict[str, Any] = {key: config[key] for key in ("kv_load_failure_policy", "engine_id") if key in config}
    inner = {key: value for key, value in config.items() if key not in outer}
    return {
        "kv_connector": "MultiConnector",
        "kv_role": config["kv_role"],
        **outer,
        "kv_connector_extra_config": {"connectors": [inner, *beside]},
    }


def stop_timeout(topology: Topology) -> int:
    return topology.drain_timeout + STOP_MARGIN


def health(address: str, port: int) -> Health:
    return Health(url(address, port, "/health"))


def api_ready(arguments: tuple[str, ...], others: int = 0) -> LogLine:
    """One line for each API server of the process, and for `others` that print the same one without a prefix."""
    return LogLine(API_READY, (api_servers(arguments) or 1) + others, "Application startup complete.")


def api_servers(arguments: tuple[str, ...]) -> int | None:
    """What the operator says about the number of API servers."""
    given = options(arguments)
    number = next((given[name] for name in _API_SERVERS if name in given), "")
    return whole(number)


def without_api_servers(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The same arguments for a process without an API, which refuses to be told how many servers it has."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        name, value = spelling(argument)
        if skip or name in _API_SERVERS:
            skip = not skip and value is None
            continue
        kept.append(argument)
    return tuple(kept)
