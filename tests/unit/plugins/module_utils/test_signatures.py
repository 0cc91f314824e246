# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import signatures
from ansible_collections.mooncake.pd.plugins.module_utils.signatures import CauseFinder

POINTER = "(APIServer pid=70) RuntimeError: Engine core initialization failed. See root cause above. Failed: {}"


def finder(lines: list[str], extra: tuple[str, ...] = ()) -> CauseFinder:
    made = CauseFinder([re.compile(pattern) for pattern in extra])
    made.feed(lines)
    return made


def cause(lines: list[str]) -> str | None:
    hit = finder(lines).cause
    return hit.line if hit else None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("zmq.error.ZMQError: Address already in use (addr='tcp://10.1.1.9:36012')", "address-in-use"),
        ("OSError: [Errno 98] Address already in use", "address-in-use"),
        ("ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8998)", "address-in-use"),
        (
            "(EngineCore_DP0 pid=9) ValueError: Free memory on device (1.2/60.0 GiB) is less than desired GPU",
            "device-memory",
        ),
        ("KV transfer 'decode' config has a conflicting tensor parallel size. Expected 2, but got 8.", "unequal-"),
        ("ValueError: prefill_tp_size: 2 must be greater than or equal to the decode_tp_size: 4", "prefill-tp-smaller"),
        ("RuntimeError: TransferEngine initialization failed with ret_value: -1", "transfer-engine"),
        ("RuntimeError: Mooncake memory registration failed.", "memory-registration"),
        ("ImportError: Please install mooncake by following the instructions at", "mooncake-missing"),
        ("ImportError: libhccl.so: cannot open shared object file: No such file or directory", "shared-library"),
        ("ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found", "glibcxx"),
        ("[ERROR] Bind_Failed(EJ0003): Failed to bind the IP port", "hccl-bind"),
        ("EI0006: Getting socket times out.", "hccl-link"),
        ("EI0014: ranks differ", "hccl-link"),
        ("EI0019: port is used", "hccl-bind"),
        ("device_ip is not set correctly", "device-ip"),
        (
            "AssertionError: MooncakeConnector is not contained in the list of registered connectors with Prometheus"
            " metrics support: dict_keys(['MooncakeStoreConnector'])",
            "multi-connector-metrics",
        ),
        ("corrupted size vs. prev_size", "memory-corruption"),
        ("Bus error (core dumped)", "bus-error"),
        ("vllm serve: error: argument --kv-transfer-config: bad", "bad-arguments"),
        ("pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig", "bad-arguments"),
        ("HFValidationError: Repo id must be in the form", "model-path"),
        ("TimeoutError: Timed out waiting for engines to send initial message on input socket.", "engine-handshake"),
        (POINTER, "engine-core"),
        ("ERROR: unknown command line flag 'offload_on_evict'", "unknown-flag"),
        ("ERROR: illegal value 'abc' specified for int64 flag 'client_ttl'", "flag-value"),
        ("ERROR: failed validation of new value '-5' for flag 'default_kv_lease_ttl'", "flag-value"),
        ("F1130 18:45:10.487267 22874 master.cpp:1608] Failed to start HTTP metadata server", "metadata-port"),
        ("F1130 18:45:10.487267 22 etcd_helper.cpp:401] Etcd is not enabled in compilation", "no-etcd-in-build"),
    ],
)
def test_fatal_lines(line: str, name: str) -> None:
    hit = finder([line]).proof
    assert hit is not None
    assert hit.signature is not None
    assert hit.signature.name.startswith(name)
    assert hit.signature.advice


@pytest.mark.parametrize(
    "line",
    [
        # Mooncake retries a taken port, and says harmless things at level E
        "E1129 11:00:00.000000  4242 tcp_transport.cpp:99] bind port 15001: Address already in use",
        "W1129 11:00:00.000000  4242 x.cpp:1] libfoo.so: cannot open shared object file",
        "WARNING 11-29 11:00:00 [interface.py:9] Failed to import: libcudart.so.12: cannot open shared object file",
        "(APIServer pid=7) INFO 11-29 11:00:00 [x.py:9] retrying: Address already in use",
        "(APIServer pid=7) INFO:     Application startup complete.",
        "Traceback (most recent call last):",
        # remarks of Python, torch, logging, Rust and CANN
        "/v/torchvision/io/image.py:14: UserWarning: Failed to load image extension: 'libjpeg.so.8: cannot open shared"
        " object file: No such file or directory'. If you don't plan on using it",
        "Warning: OSError: [Errno 98] Address already in use",
        "(Worker pid=7) [W1129 11:00:00.1 socket.cpp:204] [c10d] The server socket has failed to bind to [::]:29500"
        " (errno: 98 - Address already in use).",
        "[W socket.cpp:436] [c10d] bind failed: Address already in use",
        "[rank0]:[W1129 11:00:00.1 x.cpp:2] ImportError: libx.so: cannot open shared object file",
        "2026-11-29 11:00:00,123 - mooncake - WARNING - RuntimeError: TransferEngine initialization failed",
        "2026-11-29T11:00:00.123456Z  WARN vllm_router: OSError: Address already in use",
        "[WARNING] HCCL(9): EI0006: Getting socket times out.",
        "I20261129 11:00:00.000000  4242 x.cpp:1] TransferEngine initialization failed",
        # neither an error nor an exception: what was tried and done without
        "port 15001: Address already in use, trying the next",
        "tried libfoo.so: cannot open shared object file: No such file or directory",
        "falling back: version `GLIBCXX_3.4.32' not found",
        "cannot open shared object file, so no ImportError: going on",
        "[E1129 11:00:00.1 socket.cpp:9] [c10d] failed to bind (errno: 98 - Address already in use).",
    ],
)
def test_lines_that_prove_nothing(line: str) -> None:
    assert finder([line]).proof is None


@pytest.mark.parametrize(
    "line",
    [
        "zmq.error.ZMQError: Address already in use",
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:00:00 [core.py:1] OSError: [Errno 98] Address already in use",
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:00:00 [core.py:1] bind failed: Address already in use",
        "2026-11-29 11:00:00,123 - server - ERROR - port 8100: Address already in use",
        "[ERROR] libhccl.so: cannot open shared object file",
        "[rank0]: torch.distributed.DistNetworkError: bind (errno: 98 - Address already in use).",
        "ImportError: libx.so: cannot open shared object file, after UserWarning: no",
        "F20261129 11:00:00.000000  4242 x.cpp:9] Check failed: Address already in use",
    ],
)
def test_errors_and_exceptions_prove_a_failure(line: str) -> None:
    assert finder([line]).proof is not None


@pytest.mark.parametrize(
    "line",
    [
        "/v/bin/python: error while loading shared libraries: libx.so: cannot open shared object file: No such file",
        "/v/bin/mooncake_master: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x)",
        "bind: Address already in use",
    ],
)
def test_what_proves_nothing_may_explain_a_death(line: str) -> None:
    assert finder([line]).proof is None
    assert cause(["starting", line, "bye"]) == line


def test_glog_error_explains_a_dead_process_though() -> None:
    line = "E1129 11:00:00.000000  4242 master.cpp:99] admin server on 127.0.0.1:9003: Address already in use"
    assert cause(["starting", line, "bye"]) == line
    assert finder(["F1129 11:00:00.000000  4242 x.cpp:9] Check failed: Address already in use"]).proof is not None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("E1130 18:35:03.984715 13256 real_client.cpp:1020] Failed to allocate segment memory", "store-memory"),
        ("E1130 18:34:55.849696 13 x.cpp:176] FileStorageConfig: storage_filepath does not exist: /kv", "store-disk"),
    ],
)
def test_why_a_node_of_the_pool_died(line: str, name: str) -> None:
    """As it ends with 0.3.13.post1: a line of level E with the cause, then one of level F that names none."""
    benign = "E1130 18:35:03.983889 13256 transfer_metadata.cpp:1098] Local segment descriptor not found"
    last = "F1130 18:35:03.984721 13256 real_client_main.cpp:134] Failed to setup client: INVALID_PARAMS"
    assert cause([benign, line, last, "*** Check failure stack trace: ***"]) == line
    hit = finder([line]).cause
    assert hit is not None
    assert hit.signature is not None
    assert hit.signature.name == name


def test_first_cause_and_not_what_follows_from_it() -> None:
    lines = [
        "(EngineCore_DP0 pid=80) ERROR 11-29 [core.py:1] EngineCore failed to start.",
        "(EngineCore_DP0 pid=80) ERROR 11-29 [core.py:1] Traceback (most recent call last):",
        '(EngineCore_DP0 pid=80) ERROR 11-29 [core.py:1]     raise RuntimeError("RuntimeError: no")',
        "(EngineCore_DP0 pid=80) ERROR 11-29 [core.py:1] mypkg.errors.WeightsError: shard 3 is cut off",
        "(EngineCore_DP0 pid=80) AttributeError: 'Worker' object has no attribute 'ctx'",
        POINTER,
    ]
    assert cause(lines) == lines[3]
    assert signatures.speaker(lines[3]) == "EngineCore_DP0 pid=80"
    assert signatures.speaker("no mark") is None


def test_named_cause_beats_an_earlier_exception_which_is_told_too() -> None:
    early, named = "ImportError: plugin x cannot be loaded", "OSError: [Errno 98] Address already in use"
    found = finder([early, "going on", named, "ValueError: later"])
    assert found.cause is not None
    assert found.cause.line == named
    assert found.earlier is not None
    assert found.earlier.line == early
    assert finder([named, "ValueError: later"]).earlier is None


def test_pointer_alone_is_better_than_nothing() -> None:
    assert cause(["x", POINTER]) == POINTER
    assert cause(["x", "y"]) is None


def test_warnings_with_an_exception_in_them_are_no_cause() -> None:
    assert cause(["WARNING 11-29 [x.py:1] ModuleNotFoundError: No module named 'foo'", "Killed"]) is None


def test_excerpt_has_five_lines_around() -> None:
    before, after = [f"before {n}" for n in range(9)], [f"after {n}" for n in range(9)]
    hit = finder([*before, "OSError: [Errno 98] Address already in use", *after]).cause
    assert hit is not None
    assert hit.excerpt == [
        *(f"  before {n}" for n in range(4, 9)),
        "> OSError: [Errno 98] Address already in use",
        *(f"  after {n}" for n in range(5)),
    ]


def test_excerpt_is_the_same_when_lines_come_one_by_one() -> None:
    lines = ["a", POINTER, "b", "OSError: [Errno 98] Address already in use", "c"]
    whole, dripped = finder(lines), CauseFinder()
    for line in lines:
        dripped.feed([line])
    assert whole.cause is not None
    assert dripped.cause is not None
    assert whole.cause.excerpt == dripped.cause.excerpt


def test_declared_patterns_are_fatal_at_every_level() -> None:
    hit = finder(["INFO 11-29 [x.py:1] quota exceeded"], ("quota ex",)).proof
    assert hit is not None
    assert hit.signature is not None
    assert "fatal_patterns" in hit.signature.advice


def test_degraded_lines_are_counted_and_never_fatal() -> None:
    found = finder(
        [
            "(Worker_TP0 pid=9) ERROR Mooncake transfer failed, ret: -1",
            "(Worker_TP0 pid=9) ERROR Mooncake transfer failed, ret: -7",
            "WARNING Force freed request: cmpl-4",
            "E1129 11:00:00.0 1 x.cpp:1] Transfer slice failed with status: 103902",
        ]
    )
    assert found.proof is None
    assert {name: entry["count"] for name, entry in found.degraded.items()} == {"transfer-failed": 3, "force-freed": 1}
    assert found.degraded["force-freed"]["line"] == "WARNING Force freed request: cmpl-4"


def test_known() -> None:
    known = signatures.Known()
    for line in ["OSError: [Errno 98] Address already in use", "client_expired", "INFO x: Address already in use"]:
        known.feed(line)
    assert [(entry["kind"], entry["name"], entry["count"]) for entry in known.entries] == [
        ("fatal", "address-in-use", 1),
        ("degraded", "client-expired", 1),
    ]


def test_false_ready() -> None:
    assert signatures.FALSE_READY.match("(Worker_DP1_EP1 pid=11) INFO:     Application startup complete.")
    assert not signatures.FALSE_READY.match("(ApiServer_1 pid=11) INFO:     Application startup complete.")
    assert not signatures.FALSE_READY.match("INFO:     Application startup complete.")


def test_signatures_are_complete_and_unique() -> None:
    every = [*signatures.FATAL, *signatures.DEGRADED]
    assert len({signature.name for signature in every}) == len(every)
    for signature in every:
        re.compile(signature.pattern)
        assert signature.advice.endswith(".")
        assert signature.source
