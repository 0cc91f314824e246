# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One engine (a data-parallel rank): its workers' ports, its cache, and how a request runs through it."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import pull, push
from .blocks import Blocks, Holder
from .log import Log
from .metrics import Stats
from .ports import PULL, Rank, Sizes, adxl_range, handshake_ports, ranks, rpc_range, side_channel
from .state import Release, since
from .tokens import kv_of, text_of
from .transfer_config import PRODUCER, Config, Refused, Transfer
from .wire import Acceptor, is_taken, listen, listen_in

Emit = Callable[[dict[str, Any]], None]


@dataclass(eq=False)
class Request:
    """What an API server hands to an engine."""

    id: str
    tokens: list[int]
    max_tokens: int
    params: dict[str, Any] | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)


class EngineDied(Exception):
    """The engine is gone; the text is what its log says."""


@dataclass
class Worker:
    index: int
    rank: Rank
    device: int
    port: int
    log: Log
    session: str = ""  # address and port by which the transfer engine is known


@dataclass
class Settings:
    """What all engines of a process share."""

    release: Release
    model: int
    address: str
    config: Config | None
    sizes: Sizes
    dp: int
    block_size: int
    blocks: int
    token_seconds: float
    transfer_timeout: float
    max_seqs: int
    faults: dict[str, str]
    acceptor: Acceptor
    executor: str | None = None
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


class Engine:
    def __init__(self, settings: Settings, rank: int, local_rank: int, devices: list[int]) -> None:
        self.settings = settings
        self.rank = rank
        release = settings.release
        named = settings.dp > 1 or not since(release.vllm, "0.15.0")  # 0.32.0 writes EngineCore: since when not checked
        self.log = Log(f"EngineCore_DP{rank}" if named else "EngineCore")
        self.stats = Stats()
        self.cache = Blocks(settings.blocks, settings.block_size)
        self.dead = threading.Event()
        self.death = ""
        self.on_death: Callable[[Engine], None] = lambda engine: None
        self._slots = threading.Semaphore(settings.max_seqs)
        config = settings.config
        transfers = config.transfers if config else ()
        self.transfer: Transfer | None = transfers[0] if transfers else None
        base = self.transfer.base if self.transfer else 0
        name = self.transfer.connector if self.transfer else ""
        place: Any = {"dp_rank": rank, "dp_rank_local": local_rank, "sizes": settings.sizes}
        self.side = side_channel(name, release.vllm_ascend, base, **place)
        ports = handshake_ports(name, release.vllm_ascend, base, **place)
        self.workers = [
            Worker(i, its, devices[i], ports[i], self._worker_log(its)) for i, its in enumerate(ranks(settings.sizes))
        ]
        self.engine_id = self._engine_id()
        self.holder = Holder(self.cache, len(self.workers), self._abort_timeout())
        self.inbox = push.Inbox()

    def _worker_log(self, rank: Rank) -> Log:
        sizes = self.settings.sizes
        if sizes.world == 1 and self.settings.executor in (None, "uni"):
            return self.log  # the only worker lives in the engine's process
        name = "Worker" + (f"_DP{self.rank}" if self.settings.dp > 1 else "")
        name += f"_PP{rank.pp}" if sizes.pp > 1 else ""
        name += f"_PCP{rank.pcp}" if sizes.pcp > 1 else ""
        name += f"_TP{rank.tp}" if sizes.tp > 1 else ""
        return Log(name)

    def _engine_id(self) -> str:
        config = self.settings.config
        told = (config.engine_id if config else None) or str(uuid.uuid4())
        if since(self.settings.release.vllm_ascend, "0.12.0rc1"):
            told = f"{told}-{uuid.uuid4().hex}"
        return f"{told}_dp{self.rank}" if self.settings.dp > 1 else told

    def _abort_timeout(self) -> float:
        release, environment = self.settings.release.vllm_ascend, self.settings.environment
        hybrid = self.transfer is not None and self.transfer.connector == "MooncakeHybridConnector"
        if not since(release, "0.11.0rc0"):
            return float(environment.get("VLLM_ASCEND_KVCACHE_DELAY_FREE_TIMEOUT", 250))
        # the hybrid connector went on reading NIXL's name up to 0.22.1rc1
        if not since(release, "0.23.0rc1" if hybrid else "0.18.0"):
            return float(environment.get("VLLM_NIXL_ABORT_REQUEST_TIMEOUT", 480))
        return float(environment.get("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", 480))

    # -- start ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bind what this engine binds. Raises Refused where the engine fails, blocks for ever where it hangs."""
        began = time.monotonic()
        settings = self.settings
        self.log.info(
            f"Initializing a V1 LLM engine (v{settings.release.vllm}) with config: "
            f"tensor_parallel_size={settings.sizes.tp}, pipeline_parallel_size={settings.sizes.pp}, "
            f"data_parallel_size={settings.dp}"
        )
        if self.transfer:
            for worker in self.workers:
                self._transfer_engine(worker)
            if self.transfer.binds and "no-kv-ports" not in settings.faults:
                self._listen()
            elif self.transfer.binds:
                for worker in self.workers:
                    self._say_listening(worker)
            if self.transfer.transfer == PULL and self.transfer.role == PRODUCER:
                threading.Thread(target=self._expire, daemon=True).start()
        # the unit is written out in 0.11.0 and short in 0.32.0; the release between was not checked
        unit = "s" if since(settings.release.vllm, "0.20.0") else "seconds"
        self.log.info(
            f"init engine (profile, create kv cache, warmup model) took {time.monotonic() - began:.2f} {unit}"
        )

    def _transfer_engine(self, worker: Worker) -> None:
        settings, mooncake = self.settings, self.settings.release.mooncake
        place = "transfer_executor_base.cpp" if since(mooncake, "0.3.11") else "ascend_direct_transport.cpp"
        rpc = listen_in("0.0.0.0", *rpc_range(mooncake, settings.environment))
        first, last = adxl_range(mooncake, worker.device, settings.environment)
        worker.log.glog("I", "ascend_direct_transport.cpp", f"Find available between {first} and {last}")
        try:
            adxl = listen_in(settings.address, first, last, probe="0.0.0.0")
        except OSError as error:
            worker.log.glog("E", place, f"Failed to initialize AdxlEngine, status: 503900 ({error.strerror})")
            worker.log.glog("E", "transfer_engine_impl.cpp", "Failed to install Ascend transport")
            raise Refused("RuntimeError", "TransferEngine initialization failed with ret_value: -1") from error
        if rpc is None or adxl is None:
            which = f" for device: {worker.device}" if since(mooncake, "0.3.10.post1") else "."
            worker.log.glog("E", "ascend_direct_transport.cpp", f"Find available port failed{which}")
            worker.log.glog("E", "transfer_engine_impl.cpp", "Failed to install Ascend transport")
            raise Refused("RuntimeError", "TransferEngine initialization failed with ret_value: -1")
        settings.acceptor.add(rpc, None)
        settings.acceptor.add(adxl, None)
        where = f"{settings.address}:{rpc.getsockname()[1]}"
        worker.log.glog(
            "I", "transfer_engine_impl.cpp", f"Transfer Engine RPC using P2P handshake, listening on {where}"
        )
        worker.session = where
        worker.log.glog(
            "I",
            place,
            f"Success to initialize adxl engine:{settings.address}:{adxl.getsockname()[1]} "
            f"with device_id:{worker.device}",
        )

    def _say_listening(self, worker: Worker) -> None:
        assert self.transfer
        path = f"tcp://{self.settings.address}:{worker.port}"
        pushes = self.transfer.transfer != PULL
        place = "mooncake_layerwise_connector.py" if pushes else "mooncake_connector.py"
        if not since(self.settings.release.vllm_ascend, "0.21.0rc1"):
            worker.log.info(f"Starting listening on path: {path}", place)
        elif pushes:
            worker.log.info(f"KVCacheRecvingLayerThread listening on {path}, tp_rank={worker.rank.tp}", place)
        else:
            pcp = "" if self.transfer.connector == "MooncakeHybridConnector" else f", pcp_rank={worker.rank.pcp}"
            worker.log.info(
                f"KVCacheSendingThread started listening on path: {path}. Thread: tp_rank={worker.rank.tp}, "
                f"pp_rank={worker.rank.pp}{pcp}",
                place,
            )

    def _listen(self) -> None:
        assert self.transfer
        server = pull.server(self) if self.transfer.transfer == PULL else push.server(self)
        for worker in self.workers:
            self._say_listening(worker)
            try:
                listener = listen(self.settings.address, worker.port)
            except OSError as error:
                if not is_taken(error):
                    raise Refused("zmq.error.ZMQError", f"{error.strerror} (addr='{self._path(worker)}')") from error
                self._port_taken(worker)
                return
            self.settings.acceptor.add(listener, server(worker))

    def _path(self, worker: Worker) -> str:
        return f"tcp://{self.settings.address}:{worker.port}"

    def _port_taken(self, worker: Worker) -> None:
        """The listening thread dies of it. Then the pull connectors look after it since 0.12.0rc1, within 3 s; the
        others wait for ever for a thread that is gone."""
        assert self.transfer
        release = self.settings.release.vllm_ascend
        said = f"zmq.error.ZMQError: Address already in use (addr='{self._path(worker)}')"
        looked_after = self.transfer.transfer == PULL and since(release, "0.12.0rc1")
        if looked_after and since(release, "0.13.0"):  # caught and logged: not checked where it began
            worker.log.error(
                f"Mooncake KVCacheSendingThread encountered exception. Error: {said}", "mooncake_connector.py"
            )
        worker.log.raised(said)
        if looked_after:
            time.sleep(float(os.environ.get("MOONCAKE_PD_TWIN_PORT_SECONDS", "3")))
            raise Refused("RuntimeError", "KV Cache sending/receiving thread failed to start.")
        threading.Event().wait()

    def _expire(self) -> None:
        release, timeout = self.settings.release.vllm_ascend, self.holder.timeout
        while True:
            time.sleep(min(0.5, max(0.05, timeout / 10)))
            for name in self.holder.expire():
                for worker in self.workers:
                    if since(release, "0.21.0rc1"):
                        worker.log.error(
                            f"Force freed expired request: {name}. Reason: Request exceeded timeout threshold "
                            f"({timeout:g} seconds). Action: Resources have been forcibly released to prevent memory "
                            "leak.",
                            "mooncake_connector.py",
                        )
                    else:
                        worker.log.info(f"Force freed request: {name}", "mooncake_connector.py")

    # -- requests ------------------------------------------------------------------------------------------------

    def die(self, why: str) -> None:
        if not self.dead.is_set():
            self.death = why
            self.dead.set()
            self.log.error("EngineCore encountered a fatal error.")
            self.log.error(why)
            self.on_death(self)

    def snapshot(self) -> dict[str, float]:
        return self.stats.snapshot(self.cache.usage)

    def run(self, request: Request, emit: Emit) -> None:
        """Emits {"token": text}..., then {"finish": reason, "params": ..., "external": n} or {"error": text}."""
        stats = self.stats
        stats.add(waiting=1)
        phase = "waiting"
        blocks: list[int] | None = None
        taken = False
        try:
            taken = self._slot(request)
            # a prompt that still has to come from elsewhere counts as waiting
            blocks = self.cache.allocate(len(request.tokens) + request.max_tokens, request.cancelled) if taken else None
            if blocks is None:
                reason = "abort" if request.cancelled.is_set() else "error"
                stats.add(**{f"finished_{reason}": 1})
                emit({"finish": reason, "params": None, "external": 0})
                return
            kv, external = self._prompt(request, blocks)
            stats.add(waiting=-1, running=1)
            phase = "running"
            self.cache.write(blocks, kv)
            stats.add(queries=len(kv))
            stats.source(external, len(kv) - external)
            reason = self._generate(request, kv, emit)
            params, held = self._hand_over(request, blocks) if reason == "length" else (None, False)
            # before the client learns of the end, so that whoever looks then sees it
            stats.add(running=-1, **{f"finished_{reason}": 1})
            phase = ""
            if not held:
                self.cache.free(blocks)
            blocks = None
            emit({"finish": reason, "params": params, "external": external})
        except pull.LoadFailed as error:
            stats.add(finished_error=1)
            self.log.error(
                f"Failing 1 request(s) due to KV load failure (failure_policy=fail, {error})", "scheduler.py"
            )
            emit({"error": "Internal server error"})
        except EngineDied as error:
            self.die(str(error))
            emit({"dead": True})
        finally:
            if phase:
                stats.add(**{phase: -1})
            if blocks is not None:
                self.cache.free(blocks)
            if taken:
                self._slots.release()

    def _slot(self, request: Request) -> bool:
        while not request.cancelled.is_set() and not self.dead.is_set():
            if self._slots.acquire(timeout=0.1):
                return True
        return False

    def _prompt(self, request: Request, blocks: list[int]) -> tuple[list[int], int]:
        """The prompt's KV, and how many of its tokens came from elsewhere."""
        own = kv_of(request.tokens, self.settings.model)
        params, transfer, config = request.params, self.transfer, self.settings.config
        if not (params and transfer and config and params.get("do_remote_prefill")):
            return own, 0
        if "ignore-kv" in self.settings.faults:
            return own, 0
        self.stats.add(external_queries=len(own))
        try:
            if transfer.transfer == PULL:
                kv = pull.fetch(self, request, params)
            else:
                kv = push.await_prompt(self, request, params, blocks)
        except pull.LoadFailed as error:
            if config.policy == "fail":
                raise
            self.log.warning(f"Recovering from KV load failure: 1 request(s) rescheduled ({error})", "scheduler.py")
            return own, 0
        if kv is None:
            return own, 0
        if len(kv) != len(own):
            raise pull.LoadFailed(f"{len(kv)} instead of {len(own)} tokens came")
        self.stats.add(external_hits=len(kv))
        return kv, len(kv)

    def _generate(self, request: Request, kv: list[int], emit: Emit) -> str:
        if "empty-answer" in self.settings.faults:
            return "length"
        for text in text_of(kv, request.max_tokens):
            # time.sleep where nothing has to be waited for would cost a thread switch for each token
            if self.settings.token_seconds and request.cancelled.wait(self.settings.token_seconds):
                return "abort"
            if request.cancelled.is_set():
                return "abort"
            if self.dead.is_set():
                raise EngineDied(self.death)
            self.stats.add(generation_tokens=1)
            emit({"token": text})
        return "length"

    def _hand_over(self, request: Request, blocks: list[int]) -> tuple[dict[str, Any] | None, bool]:
        """What decode is told, and whether the blocks stay."""
        params, transfer = request.params, self.transfer
        if not (params and transfer and params.get("do_remote_decode")):
            return None, False
        if transfer.transfer == PULL:
            return pull.offer(self, request, blocks), True
        push.deliver(self, request, params, blocks)
        return None, False
