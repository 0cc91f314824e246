# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What log lines of vLLM, vLLM-Ascend, Mooncake and CANN mean: failed for good, or degraded."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Iterable, Optional, Sequence


@dataclass(frozen=True)
class Signature:
    name: str
    pattern: str
    advice: str
    source: str
    points_up: bool = False  # it says that something failed, not what: the cause stands further up
    # Programs also say it of what they try and do without: only an exception or an error proves a failure by it.
    needs_error: bool = False


_UP = "The cause stands above this line in the log."
_VLLM = "vllm@0.32.0"
_ASCEND = "vllm-ascend@182b75ea distributed/kv_transfer/kv_p2p/mooncake_connector.py"
_MOONCAKE = "Mooncake@3b5a5941"
_CANN = "CANN error codes as reported by HCCL"

# Start-up has failed for good. Two groups: what names the cause, and what only points up.
FATAL: tuple[Signature, ...] = (
    Signature(
        "address-in-use",
        r"[Aa]ddress already in use|error while attempting to bind on address",
        "Another process (or a client connection) has the port: the preflight names its owner. Stop that one or plan"
        " another port.",
        "asyncio, pyzmq; vllm-ascend issues 6455, 8938",
        needs_error=True,
    ),
    Signature(
        "address-not-here",
        r"Cannot assign requested address",
        "The planned address is not on this host: check hosts.<name>.address in the topology.",
        "Linux EADDRNOTAVAIL, bind(2)",
    ),
    Signature(
        "device-memory",
        r"Free memory on device .* is less than desired",
        "Another process holds device memory, often a worker left by a killed engine: look with npu-smi info (or"
        " nvidia-smi), stop it, or lower gpu_memory_utilization.",
        "vllm issue 21882",
    ),
    Signature(
        "out-of-memory",
        r"(?:NPU|CUDA) out of memory|torch\.OutOfMemoryError",
        "The device memory is too small for this model and these settings: lower max_model_len, max_num_seqs or"
        " gpu_memory_utilization, or raise the parallel size.",
        "torch, torch_npu",
    ),
    Signature(
        "unequal-parallel-config",
        r"config has a conflicting (?:tensor|data) parallel size",
        "The kv-transfer-config describes other parallel sizes than the arguments: let the topology generate both.",
        f"{_ASCEND}; vllm-ascend issues 8442, 8345",
    ),
    Signature(
        "prefill-tp-smaller",
        r"prefill_tp_size: .* must be greater than or equal|Prefill TP size must be divisible by Decode TP size",
        "The tensor-parallel size of prefill must be a multiple of that of decode.",
        _ASCEND,
    ),
    Signature(
        "transfer-engine",
        r"TransferEngine initialization failed",
        "Mooncake could not start its transport: see the lines above it, check protocol, device and address.",
        _ASCEND,
    ),
    Signature(
        "adxl-port",
        # "for device: N" behind it since Mooncake 0.3.11
        r"Find available port failed",
        "Every port of the AscendDirect range of this chip is taken: free the range or set ASCEND_BASE_PORT.",
        f"{_MOONCAKE} ascend_direct_transport.cpp",
    ),
    Signature(
        "ascend-transport",
        r"Failed to install Ascend transport|Failed to initialize AdxlEngine",
        "The Mooncake build and the CANN of this host do not fit, or the NPU network is not up: run the preflight.",
        f"{_MOONCAKE} ascend_direct_transport.cpp",
    ),
    Signature(
        "memory-registration",
        r"Mooncake memory registration failed|Register mem ret: ?(?:103900|207000)",
        "The KV cache could not be registered: check memlock (LimitMEMLOCK=infinity), hugepages and the NIC's limits.",
        f"{_ASCEND}; {_MOONCAKE} ascend_direct_transport.cpp",
    ),
    Signature(
        "mooncake-missing",
        r"Please install mooncake|mooncake is not available",
        "Mooncake is not in the engine's Python environment: run the mooncake role for this host.",
        f"{_ASCEND}; {_VLLM}",
    ),
    Signature(
        "shared-library",
        r"cannot open shared object file",
        "A shared library is missing: install its package, or add its folder to LD_LIBRARY_PATH of the unit.",
        "ld.so(8)",
        needs_error=True,
    ),
    Signature(
        "glibcxx",
        r"(?:GLIBCXX|GLIBC)_\S+'? not found",
        "The binary was built on a newer system than this host: use the wheel or build made for this host.",
        "ld.so(8)",
        needs_error=True,
    ),
    Signature(
        "hccl-bind",
        r"Bind_Failed ?\(EJ0003\)|\bEJ0003\b|\bEI0019\b|and specific port\[16666\] fail",
        "HCCL could not bind its port (60000-60015 on the host, 16666 on the chip): another job uses the chips, or the"
        " port range must be moved (HCCL_IF_BASE_PORT, HCCL_NPU_SOCKET_PORT_RANGE).",
        _CANN,
    ),
    Signature(
        "hccl-link",
        r"\bEI00(?:06|14)\b",
        "The chips could not reach each other: check the NPU network (hccn_tool link, ip, net_health), device_ip and"
        " that every peer has started.",
        _CANN,
    ),
    Signature(
        "device-ip",
        r"device_ip.? is not set correctly",
        "The chip's address in hccn.conf or the rank table is wrong: compare with `hccn_tool -i N -ip -g`.",
        _CANN,
    ),
    Signature(
        "hccl-streams",
        r"\bEL0009\b",
        "The chip has no more streams: other processes use it, or too many graphs are captured.",
        _CANN,
    ),
    Signature(
        "store-config",
        r"environment variable 'MOONCAKE_CONFIG_PATH' is not set",
        "The store connector needs MOONCAKE_CONFIG_PATH in the unit's environment.",
        _VLLM,
    ),
    Signature(
        "store-memory",
        r"Failed to allocate segment memory",
        "There is not as much memory as the segment needs: lower segment_size of store in the topology, or, with"
        " MC_STORE_USE_HUGEPAGE, reserve hugepages for it.",
        f"{_MOONCAKE} real_client.cpp; seen with 0.3.13.post1",
    ),
    Signature(
        "store-disk",
        r"FileStorageConfig: storage_filepath does not exist|Invalid FileStorage configuration",
        "The folder of the disk (ssd.path of the topology) is not there, or is a link: mount the disk and run"
        " start.yml, which makes the folder.",
        f"{_MOONCAKE} file_storage.cpp; seen with 0.3.13.post1",
    ),
    Signature(
        "store-master",
        r"Failed to mount segment: INVALID_PARAMS|Initialize MooncakeDistributedStore failed",
        "The store client could not register with the master: check that the master is ready, its address and version.",
        f"{_MOONCAKE} real_client.cpp; {_VLLM}",
    ),
    Signature(
        "multi-connector-metrics",
        r"is not contained in the list of registered connectors with Prometheus metrics support",
        "vLLM 0.32.0 ends as soon as KV has moved where a store stands beside MooncakeConnector (vllm#43828): let"
        " prepare.yml install the engine, whose plugin mends it, or take the store out of connector.also.",
        _VLLM,
    ),
    Signature(
        "unknown-flag",
        r"unknown command line flag",
        "mooncake_master does not know a flag that the plan writes, so another release is installed than the planned"
        " one: run prepare.yml.",
        "gflags, tried with Mooncake 0.3.13.post1",
    ),
    Signature(
        "flag-value",
        r"illegal value '.*' specified for \w+ flag|failed validation of new value",
        "mooncake_master does not take the value of the named flag.",
        "gflags, tried with Mooncake 0.3.13.post1",
    ),
    Signature(
        "no-etcd-in-build",
        r"Etcd is not enabled in compilation|Failed to parse HA backend config: UNAVAILABLE_IN_CURRENT_MODE",
        "This Mooncake was built without STORE_USE_ETCD, so its masters cannot elect one of them: use a wheel of PyPI,"
        " which has it, or build with STORE_USE_ETCD=ON; or write master.host for one master.",
        "Mooncake@v0.3.11 etcd_helper.cpp, master_service_supervisor.cpp@3b5a5941",
    ),
    Signature(
        "metadata-port",
        r"Failed to start (?:C\+\+ )?HTTP metadata server",
        "Another process has the port of the metadata server, which listens on all addresses: stop that one, or plan"
        " another master.http_metadata_server_port.",
        f"{_MOONCAKE} master.cpp, tried with 0.3.13.post1",
    ),
    Signature(
        "admin-port",
        r"Failed to start master admin server",
        "Another process has the port of metrics and health: stop that one, or plan another master.metrics_port.",
        f"{_MOONCAKE} master_admin_service.cpp, tried with 0.3.13.post1",
    ),
    Signature(
        "master-snapshot",
        r"Failed to create snapshot stores",
        "The master cannot use the folder of its snapshots: look at master.snapshot_path and whose it is.",
        f"{_MOONCAKE} master_service.cpp, tried with 0.3.13.post1",
    ),
    Signature(
        "unsupported-connector",
        r"Unsupported connector type",
        "This engine version does not know the connector: check connector.name against engine.kind and version.",
        _VLLM,
    ),
    Signature(
        "headless-api-servers",
        r"cannot be used with --headless",
        "A headless process must have no --api-server-count: take it out of args.",
        _VLLM,
    ),
    Signature(
        "bad-arguments",
        r"\d+ validation errors? for (?:VllmConfig|KVTransferConfig)|^vllm serve: error:|^vllm: error:",
        "The engine refuses its arguments: the lines below the marked one name the setting.",
        _VLLM,
    ),
    Signature(
        "model-path",
        r"HFValidationError|is not a local folder and is not a valid model identifier",
        "There is no model at model.path on this host.",
        "huggingface_hub, transformers",
    ),
    Signature(
        "no-accelerator",
        r"Cannot access accelerator device when none is available",
        "The connector asks for an accelerator and the engine runs on the CPU: its CPU plugin is not installed.",
        f"torch; {_VLLM}",
    ),
    Signature(
        "memory-corruption",
        r"corrupted size vs\. prev_size|double free or corruption",
        "A native library corrupted memory: usually two builds of Mooncake, or a Mooncake and a CANN that do not fit.",
        "glibc malloc",
    ),
    Signature(
        "bus-error",
        r"\bBus error\b",
        "Shared memory ran out: check the size of /dev/shm (`df /dev/shm`) and what is left in it.",
        "signal(7) SIGBUS; llm-d and NCCL reports",
    ),
    Signature("engine-core", r"Engine core initialization failed|EngineCore failed to start", _UP, _VLLM, True),
    Signature("worker-start", r"WorkerProc failed to start|WorkerProc hit an exception", _UP, _VLLM, True),
    Signature(
        "kv-thread",
        r"KV Cache sending/receiving thread failed to start|Timeout waiting for KV Cache thread to be ready",
        _UP,
        _ASCEND,
        True,
    ),
    Signature(
        "engine-handshake",
        r"Timed out waiting for engines to send initial message",
        "An engine process did not come up in time: look for its error above, and on the other hosts of the instance.",
        _VLLM,
        True,
    ),
)

DEGRADED: tuple[Signature, ...] = (
    Signature(
        "force-freed",
        r"Force freed (?:expired )?request",
        "Decode did not fetch KV blocks in time, so prefill freed them: decode is overloaded or cut off, or the request"
        " was cancelled.",
        _ASCEND,
    ),
    Signature(
        "late-finish",
        r"finish req not in reqs to process",
        "A transfer finished after its request had been freed: see force-freed on the prefill side.",
        _ASCEND,
    ),
    Signature(
        "receive-failed",
        r"Receive failed after all retries|Failed to receive data after \d+ retries",
        "Decode cannot fetch from this prefill: check that it runs, its kv_port and the network between the two.",
        _ASCEND,
    ),
    Signature(
        "transfer-failed",
        r"Mooncake transfer failed|Transfer slice failed with status: 10390\d|Sync batch data transfer timeout",
        "The transport broke during a transfer: check the link to the named peer and the transfer timeouts.",
        f"{_MOONCAKE} ascend_direct_transport.cpp",
    ),
    Signature(
        "connect-timeout",
        r"Connect timeout to:|Failed to connect to target: ",
        "The named peer does not answer: it is down, or the address is not reachable from here.",
        f"{_MOONCAKE} ascend_direct_transport.cpp",
    ),
    Signature("disconnect", r"Failed to disconnect", "A peer went away; harmless once.", _MOONCAKE),
    Signature(
        "client-expired",
        r"client_expired",
        "A store client stopped its heartbeat: it died or cannot reach the master.",
        f"{_MOONCAKE} master_service.cpp",
    ),
    Signature(
        "master-without-etcd",
        r"leader view: ETCD_OPERATION_ERROR|key=mooncake-store/\S+, error=(?!key not found)",
        "The master does not reach etcd, so none of them leads: look at etcd and the way to it.",
        f"{_MOONCAKE} master_service_supervisor.cpp, etcd_helper.cpp, tried with 0.3.13.post1",
    ),
    Signature(
        "random-port",
        r"Master service started on port 0\b",
        "The master listens on a random port, for its configuration file has no rpc_port: the plan writes --rpc_port.",
        f"{_MOONCAKE} master.cpp, tried with 0.3.13.post1",
    ),
    Signature(
        "duplicate-name",
        r"Duplicate rpc_meta key",
        "A store client of this name exists already or was killed; the next start works, two live ones never do.",
        f"{_MOONCAKE} http_metadata_server.cpp",
    ),
    Signature(
        "rail-inactive", r"mark it inactive", "A network path is out of use: check the device it names.", _MOONCAKE
    ),
    Signature(
        "prefill-not-ready",
        r"Timeout waiting for P side ready",
        "Prefill did not offer the KV blocks in time: look for errors on the prefill named in the request.",
        _ASCEND,
    ),
    Signature(
        "no-rdma",
        r"No RDMA devices found|Found 0 HCAs",
        "No RDMA device: with protocol rdma Mooncake falls back to TCP without an error.",
        "Mooncake@0.3.13.post1 topology.cpp",
    ),
)

# A bootstrap server inside a worker prints uvicorn's line as well; that worker is no API server.
# vllm pull request 51532, vllm issue 50282
FALSE_READY = re.compile(r"^\((?:Worker|EngineCore)[^()]*\).*Application startup complete\.")

_SPEAKER = re.compile(r"^\((?P<who>[^()]+ pid=\d+)\)\s*")
_DATE = r"(?:\d{4}-\d\d-\d\d[T ][\d:.,]+Z? +)?"
# Levels: vLLM and uvicorn, dated (Rust's tracing) or bracketed (CANN); glog's letter; c10's "[W1129 ..." and older
# "[W socket.cpp:..."; logging's " - WARNING - "; the warnings of Python ("x.py:7: UserWarning: ...").
_QUIET = re.compile(
    rf"^{_DATE}\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?)\b|^[IW](?:\d{{4}}){{1,2}} "
    r"|^(?:\[rank\d+\]: ?)?\[[IW](?:\d{4})? | - (?:DEBUG|INFO|WARNING) - "
    r"|(?:^|\s)(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?Warning:(?:\s|$)"
)
# Mooncake says harmless things at level E and retries a taken port, so no glog line but F proves a failure while the
# process lives.
_GLOG_ERROR = re.compile(r"E(?:\d{4}){1,2} ")
_ERROR = re.compile(rf"^{_DATE}\[?(?:ERROR|CRITICAL|FATAL)\b|^\[?F(?:\d{{4}}){{1,2}} | - (?:ERROR|CRITICAL) - ")
_EXCEPTION = re.compile(r"(?:^|[\]\s])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?::\s|$)")
_FATAL = [(signature, re.compile(signature.pattern)) for signature in FATAL]
_DEGRADED = [(signature, re.compile(signature.pattern)) for signature in DEGRADED]
_ANY_FATAL = re.compile("|".join(f"(?:{signature.pattern})" for signature in FATAL))
_ANY_DEGRADED = re.compile("|".join(f"(?:{signature.pattern})" for signature in DEGRADED))


def speaker(line: str) -> Optional[str]:
    """'Worker_DP1_TP3 pid=41' of a line that vLLM marked with its process."""
    match = _SPEAKER.match(line)
    return match.group("who") if match else None


def _said(line: str) -> str:
    return _SPEAKER.sub("", line, count=1)


def _quiet(text: str) -> bool:
    """Said as a remark, whatever it says. An error or an exception that quotes a warning is none."""
    remark = _QUIET.search(text)
    failures = [match for match in (_ERROR.search(text), _EXCEPTION.search(text)) if match]
    return bool(remark and all(remark.start() < failure.start() for failure in failures))


def _proves(signature: Signature, text: str) -> bool:
    """Is this enough to give up on a process that still lives?"""
    if _GLOG_ERROR.match(text):
        return False
    if not signature.needs_error:
        return True
    said, exception = re.search(signature.pattern, text), _EXCEPTION.search(text)
    return bool(_ERROR.search(text) or (said and exception and exception.start() < said.start()))


def fatal(line: str) -> Optional[Signature]:
    if not _ANY_FATAL.search(line):
        return None
    text = _said(line)
    return next((signature for signature, pattern in _FATAL if pattern.search(text)), None)


def degraded(line: str) -> Optional[Signature]:
    if not _ANY_DEGRADED.search(line):
        return None
    return next((signature for signature, pattern in _DEGRADED if pattern.search(line)), None)


@dataclass
class Hit:
    line: str
    before: list[str]
    signature: Optional[Signature] = None
    after: list[str] = field(default_factory=list)

    @property
    def excerpt(self) -> list[str]:
        return [*(f"  {line}" for line in self.before), f"> {self.line}", *(f"  {line}" for line in self.after)]


AROUND = 5


class CauseFinder:
    """Fed line by line, remembers the first line that proves a failure and the first that explains it."""

    def __init__(self, extra: Sequence[re.Pattern[str]] = ()) -> None:
        self._extra = extra
        self._before: deque[str] = deque(maxlen=AROUND)
        self.proof: Optional[Hit] = None  # enough to give up on a process that still lives
        self._named: Optional[Hit] = None
        self._exception: Optional[Hit] = None
        self._pointer: Optional[Hit] = None
        # An exception before the named cause: it may be harmless, or the reason behind it.
        self.earlier: Optional[Hit] = None
        self.degraded: dict[str, dict[str, object]] = {}

    def feed(self, lines: Iterable[str]) -> None:
        for line in lines:
            for hit in {id(h): h for h in (self.proof, self._named, self._exception, self._pointer) if h}.values():
                if len(hit.after) < AROUND:
                    hit.after.append(line)
            self._judge(line)
            self._before.append(line)

    def _judge(self, line: str) -> None:
        for pattern in self._extra:
            if pattern.search(line):
                declared = Signature(pattern.pattern, pattern.pattern, "fatal_patterns names this line as fatal.", "")
                hit = Hit(line, list(self._before), declared)
                self.proof = self.proof or hit
                if not self._named:
                    self._named, self.earlier = hit, self._exception
                return
        weak = degraded(line)
        if weak:
            seen = self.degraded.setdefault(weak.name, {"name": weak.name, "count": 0, "advice": weak.advice})
            seen["count"] = int(str(seen["count"])) + 1
            seen["line"] = line
        text = _said(line)
        if _quiet(text):
            return
        signature = fatal(line)
        if signature:
            hit = Hit(line, list(self._before), signature)
            if _proves(signature, text):
                self.proof = self.proof or hit
            if signature.points_up:
                self._pointer = self._pointer or hit
            elif not self._named:
                self._named, self.earlier = hit, self._exception
        elif _EXCEPTION.search(text):
            self._exception = self._exception or Hit(line, list(self._before))

    @property
    def cause(self) -> Optional[Hit]:
        """A line that names its reason, else the first exception, else a line that only points up."""
        return self._named or self._exception or self._pointer


class Known:
    """Every known signature in the lines it is fed: how often, the last line, what to do."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, object]] = {}

    def feed(self, line: str) -> None:
        for kind, signature in (("fatal", fatal(line)), ("degraded", degraded(line))):
            # a library that was tried and not found is said at level INFO or WARNING
            said = _said(line)
            if signature and not (kind == "fatal" and (_quiet(said) or _GLOG_ERROR.match(said))):
                entry = self._found.setdefault(
                    signature.name,
                    {"kind": kind, "name": signature.name, "count": 0, "line": "", "advice": signature.advice},
                )
                entry["count"] = int(str(entry["count"])) + 1
                entry["line"] = line

    @property
    def entries(self) -> list[dict[str, object]]:
        return list(self._found.values())
