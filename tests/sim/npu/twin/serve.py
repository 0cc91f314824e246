# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`vllm serve` of vLLM-Ascend: the start in the order of the real one, then service until a signal or a death."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from argparse import Namespace
from typing import Any, NoReturn

from . import options, shape, state, transfer_config
from .api import Api, Server
from .engine import Engine, Settings
from .log import Log
from .metrics import BY_SOURCE_SINCE
from .peers import Head, Member, Runs
from .shape import INTERNAL
from .tokens import model_facts, weights
from .transfer_config import Refused
from .wire import Acceptor, local_address


def main(arguments: list[str] | None = None) -> None:
    argv = sys.argv[1:] if arguments is None else arguments
    release = state.release()
    if argv in (["--version"], ["-v"]):
        print(release.vllm)
        return
    if not argv or argv[0] != "serve":
        print("usage: vllm [-h] [-v] {chat,complete,serve,bench} ...", file=sys.stderr)
        print(f"vllm: error: argument subparser: invalid choice: {argv[:1]}", file=sys.stderr)
        sys.exit(2)
    args = options.parse(argv[1:], release.vllm, transfer_config.reader(release.vllm))
    Process(args, release).run()


class EngineFailed(Exception):
    """An engine did not start; its log says why."""


class Process:
    def __init__(self, args: Namespace, release: state.Release) -> None:
        self.args = args
        self.release = release
        self.model: str = args.model_tag or args.model or "Qwen/Qwen3-0.6B"
        self.facts = model_facts(self.model)
        self.told = state.host().get("engine", {})
        self.log = Log("APIServer", self._prefixed())
        self.server: Server | None = None
        self.engines: list[Engine] = []
        self.faults: dict[str, str] = {}
        self.serving = False
        self._stop = threading.Event()
        self._dead: list[str] = []

    def _prefixed(self) -> bool:
        """Uvicorn's lines have the process in front in 0.11.0 and not in 0.32.0: the release between not checked."""
        return not state.since(self.release.vllm, "0.20.0")

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._signalled)
        signal.signal(signal.SIGINT, self._signalled)
        try:
            self._run()
        except Refused as refused:
            self.log.raised(str(refused))
        except EngineFailed:
            names = {f"EngineCore_DP{engine.rank}": 1 for engine in self.engines}
            text = "Engine core initialization failed. See root cause above."
            self.log.raised(f"RuntimeError: {text} Failed core proc(s): {names}")
        self._exit(1)

    # -- start ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        args, release = self.args, self.release
        try:
            self.shape = shape.of(args, release.vllm, self.facts["moe"])
        except Refused as refused:
            self.log.raised(str(refused))
            self._exit(1)
        if self.shape.api_servers > 1:
            self.log = Log("ApiServer_0", self._prefixed())
        if self.shape.headless:
            self.log = Log()
        role = (args.kv_transfer_config or {}).get("kv_role", "")
        kinds = {"kv_producer": "prefill", "kv_consumer": "decode"}
        names = [kinds.get(role, "mixed"), *(f"rank:{rank}" for rank in self.shape.ranks)]
        self.faults = state.engine_faults("headless" if self.shape.headless else str(args.port), *names)
        self.log.info(f"version {release.vllm}", "api_utils.py")
        self.log.info(f"model   {self.model}", "api_utils.py")
        self.log.info("Platform plugin ascend is activated", place="__init__.py")
        if not self.shape.headless:
            self._bind_api()
        config = self._configure()
        settings = self._settings(config)
        address = settings.address
        if self.shape.headless:
            self.log.info(
                f"Launching {self.shape.local} data parallel engine(s) in headless mode, with head node address "
                f"tcp://{self._head_address(address)}:{self.shape.rpc_port}.",
                "serve.py",
            )
        self._early_faults()
        group = self._group(address)
        if group:
            group.on_loss = self._lost
            if "never-join" in self.faults:
                threading.Event().wait()
            group.meet()
        self._start_engines(settings)
        if isinstance(group, Member):
            group.engines = {engine.rank: engine for engine in self.engines}
        if group:
            group.ready()
        runs: list[Runs] = list(self.engines)
        if isinstance(group, Head) and self.shape.mode == INTERNAL:
            runs += [group.remote[rank] for rank in sorted(group.remote)]
        self._serve(runs)

    def _bind_api(self) -> None:
        args = self.args
        names = args.served_model_name or [self.model]
        max_len = args.max_model_len or self.facts["max_len"]
        by_source = state.since(self.release.vllm, BY_SOURCE_SINCE)
        api = Api(
            self.log,
            names=names,
            root=self.model,
            max_len=max_len,
            version=self.release.vllm,
            by_source=by_source,
            faults=self.faults,
        )
        try:
            self.server = Server(args.host, args.port, api)
        except OSError as error:
            self.log.raised(f"OSError: [Errno {error.errno}] {error.strerror}")
            self._exit(1)
        self.api = api

    def _configure(self) -> transfer_config.Config | None:
        release, parallel = self.release, self.shape
        config = transfer_config.understand(self.args.kv_transfer_config, release.vllm_ascend, release.vllm)
        if config:
            # every engine of a dense model counts as a group of its own (vllm-ascend issues 8344, 8345)
            dp = parallel.dp if self.facts["moe"] else 1
            transfer_config.check(config, release.vllm_ascend, dp, parallel.sizes, self.facts)
        self._additional(config)
        return config

    def _additional(self, config: transfer_config.Config | None) -> None:
        extra = self.args.additional_config or {}
        wants = extra.get("recompute_scheduler_enable") or extra.get("scheduler_config", {}).get(
            "recompute_scheduler_enable"
        )
        if wants and state.since(self.release.vllm_ascend, "0.23.0rc1"):
            if config is None or config.role == "kv_both":
                text = "recompute_scheduler_enable can only be enabled on PD-disaggregated D nodes (kv_consumer)."
                raise Refused("ValueError", text)
            if config.role == "kv_producer":
                text = "recompute_scheduler_enable is ignored on PD-disaggregated P nodes (kv_producer)."
                self.log.warning(text, "platform.py")

    def _settings(self, config: transfer_config.Config | None) -> Settings:
        told = self.told
        return Settings(
            release=self.release,
            model=weights(self.model),
            address=local_address(),
            config=config,
            sizes=self.shape.sizes,
            dp=self.shape.dp,
            block_size=self.args.block_size,
            blocks=int(told.get("kv_blocks", 2048)),
            token_seconds=float(os.environ.get("MOONCAKE_PD_TWIN_TOKEN_SECONDS") or told.get("token_seconds", 0.001)),
            transfer_timeout=float(
                os.environ.get("MOONCAKE_PD_TWIN_TRANSFER_SECONDS") or told.get("transfer_seconds", 5)
            ),
            max_seqs=self.args.max_num_seqs,
            faults=self.faults,
            acceptor=Acceptor(),
            executor=self.args.distributed_executor_backend,
        )

    def _devices(self) -> list[int]:
        """Physical ids of the chips that this process may use."""
        told = os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
        try:
            visible = [int(part) for part in told.split(",")] if told else list(range(self.release.chips))
        except ValueError as error:
            raise Refused("RuntimeError", f"ASCEND_RT_VISIBLE_DEVICES={told} is invalid") from error
        wrong = [device for device in visible if not 0 <= device < self.release.chips]
        needed = self.shape.local * self.shape.sizes.world
        if wrong or len(set(visible)) != len(visible) or len(visible) < needed:
            raise Refused(
                "RuntimeError",
                f"Invalid device ID: {needed} NPUs are needed, {visible} are visible of {self.release.chips}",
            )
        return visible

    def _head_address(self, own: str) -> str:
        """vLLM takes its own address for rank 0's where none is given."""
        return self.shape.address or own

    def _group(self, own: str) -> Head | Member | None:
        parallel = self.shape
        if parallel.alone:
            return None
        digest = hashlib.sha256(
            json.dumps([parallel.dp, vars(parallel.sizes), bool(self.args.enable_expert_parallel)]).encode()
        ).hexdigest()
        address = self._head_address(own)
        if parallel.is_head:
            return Head(parallel, address, digest, self.log, self.facts["moe"])
        return Member(parallel, address, digest)

    def _early_faults(self) -> None:
        faults = self.faults
        if "exit" in faults:
            os._exit(int(faults["exit"] or 1))
        if "killed" in faults:
            os.kill(os.getpid(), signal.SIGKILL)
        if "fatal" in faults:
            raise Refused(faults["fatal"], "")
        if "oom" in faults:
            raise Refused(
                "torch.OutOfMemoryError",
                "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 61.28 GiB total "
                "capacity; 58.90 GiB already allocated; 1.04 GiB free).",
            )
        if "fatal-line" in faults:
            self.log.error(faults["fatal-line"])
        if "hang" in faults or "fatal-line" in faults:
            threading.Event().wait()
        time.sleep(float(faults.get("slow", 0)))

    def _start_engines(self, settings: Settings) -> None:
        devices = self._devices()
        world = self.shape.sizes.world
        for index, rank in enumerate(self.shape.ranks):
            engine = Engine(settings, rank, index, devices[index * world : (index + 1) * world])
            engine.on_death = self._engine_died
            self.engines.append(engine)
        # at the same time, as in the real one: an engine that hangs does not keep the others from their ports
        failed = threading.Event()
        threads = [threading.Thread(target=self._start, args=(e, failed), daemon=True) for e in self.engines]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not failed.is_set():
            for thread in threads:
                thread.join(0.05)
        if failed.is_set():
            raise EngineFailed

    @staticmethod
    def _start(engine: Engine, failed: threading.Event) -> None:
        try:
            engine.start()
        except Exception as error:  # a mistake of the twin ends it as well
            engine.log.error("EngineCore failed to start.")
            engine.log.error("Traceback (most recent call last):")
            engine.log.error(str(error) if isinstance(error, Refused) else f"the twin failed: {error!r}")
            failed.set()

    # -- service -------------------------------------------------------------------------------------------------

    def _serve(self, runs: list[Runs]) -> None:
        if self.server:
            self.api.engines = runs
            self.api.faults.update(self.faults)
            self.server.server_activate()
            threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
            for index in range(self.shape.api_servers):
                log = Log(f"ApiServer_{index}", self._prefixed()) if self.shape.api_servers > 1 else self.log
                log.info(f"Starting vLLM API server {index} on http://{self.args.host or '0.0.0.0'}:{self.args.port}")
                log.uvicorn(f"Started server process [{os.getpid()}]")
                log.uvicorn("Waiting for application startup.")
                log.uvicorn("Application startup complete.")
        self.serving = True
        if "die-after-ready" in self.faults:
            timer = threading.Timer(
                float(self.faults["die-after-ready"] or 0), self.engines[0].die, ("RuntimeError: the twin was told so",)
            )
            timer.daemon = True
            timer.start()
        while not self._stop.wait(0.5):
            pass
        self._end()

    def _signalled(self, _number: int, _frame: Any) -> None:
        if "ignore-sigterm" in self.faults:
            return
        if not self.serving:
            # seen with 0.32.0: 143 in the first seconds; later it may hang for minutes, which is not imitated
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._stop.set()

    def _engine_died(self, engine: Engine) -> None:
        self._dead.append(engine.death)
        if self.serving:
            self._stop.set()

    def _lost(self, who: str) -> bool:
        """A process of the group went away. Idle real ranks notice at their next common step, the twin at once."""
        if self._stop.is_set():
            return False
        if self.told.get("peer_loss") == "hang":
            self.log.warning(f"lost {who} of the data parallel group, going on without it", "utils.py")
            return False
        why = f"RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer ({who} of the data parallel group)"
        if not self.serving:
            self.log.raised(why)
            self._exit(1)
        self.engines[0].die(why)
        return True

    def _end(self) -> None:
        timeout = getattr(self.args, "shutdown_timeout", 0)
        if self._dead:
            self.log.error("AsyncLLM output_handler failed.", place="async_llm.py")
            text = "EngineCore encountered an issue. See stack trace (above) for the root cause."
            self.log.error(f"vllm.v1.engine.exceptions.EngineDeadError: {text}", "async_llm.py")
            # until the watchdog looks, /health says 503
            time.sleep(float(self.told.get("dead_seconds", 1)))
        elif state.since(self.release.vllm, "0.18.0"):
            mode = "drain" if timeout else "abort"
            log = self.engines[0].log
            log.info(f"[shutdown] EngineCore: start mode={mode} timeout={timeout}s")
        if self.server:
            self._drain(0 if self._dead else timeout)
        self._exit(1 if self._dead and self.shape.api_servers > 1 else 0)

    def _drain(self, timeout: float) -> None:
        assert self.server
        api = self.api
        # new connections are refused from here on
        self.server.shutdown()
        self.server.socket.close()
        api.stopping = True
        deadline = time.monotonic() + timeout
        while api.running and time.monotonic() < deadline:
            time.sleep(0.05)
        self.log.uvicorn("Shutting down")
        for request in list(api.running):
            request.cancelled.set()
        # what has been answered must have reached its client
        deadline = time.monotonic() + 5
        if api.open_answers:
            self.log.uvicorn("Waiting for connections to close. (CTRL+C to force quit)")
        while api.open_answers and ("abort-hangs" in self.faults or time.monotonic() < deadline):
            time.sleep(0.02)
        self.log.uvicorn("Waiting for application shutdown.")
        self.log.uvicorn("Application shutdown complete.")
        self.log.uvicorn(f"Finished server process [{os.getpid()}]")

    @staticmethod
    def _exit(code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        # threads may wait for what never comes
        os._exit(code)
