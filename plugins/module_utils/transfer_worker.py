# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One end of a proof of transfers. It runs alone, in the Python that Mooncake is installed in, not in Ansible's.

It reads what to do from its input, as JSON, and says one JSON object a line. Everything that is moved is random and
new, so that what lies in memory from an earlier run proves nothing.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import mmap
import os
import signal
import sys
import time
from typing import Any, Dict, Mapping, Protocol

P2P = "P2PHANDSHAKE"
# what it complains of stands between these in its log: MARK + name of the peer
MARK = "mooncake-pd-peer "
# AscendDirect registers device memory in pages of this size (mooncake-transfer-engine@3b5a594, HCCS)
_PAGE = 2 << 20


class Trouble(Exception):
    """What cannot be done, and the rule that tells it."""

    def __init__(self, rule: str, problem: str) -> None:
        super().__init__(problem)
        self.rule = rule


class Memory(Protocol):
    """What an engine of vLLM would keep KV in."""

    def allocate(self, size: int) -> int: ...

    def put(self, address: int, data: bytes) -> None: ...

    def get(self, address: int, size: int) -> bytes: ...


class Host:
    """Pages of this process."""

    def __init__(self) -> None:
        self._kept: Dict[int, mmap.mmap] = {}

    def allocate(self, size: int) -> int:
        try:
            pages = mmap.mmap(-1, size)
        except (OSError, ValueError) as error:
            raise Trouble("memory", f"{size} bytes of memory cannot be had: {error}") from None
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        self._kept[address] = pages
        return address

    def put(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def get(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)


class Npu:
    """Memory of an NPU, by the functions of acl/acl_rt.h (CANN 8.2). AscendDirect wants a device to be set."""

    # aclrtMemMallocPolicy ACL_MEM_MALLOC_HUGE_FIRST; aclrtMemcpyKind; ACL_ERROR_REPEAT_INITIALIZE
    _HUGE_FIRST, _TO_DEVICE, _TO_HOST, _AGAIN = 0, 1, 2, 100002

    def __init__(self, device: int, library: str = "libascendcl.so") -> None:
        try:
            self._acl = ctypes.CDLL(library)
        except OSError as error:
            raise Trouble("device", f"{error}; it comes with CANN") from None
        self._call("aclInit", None, fine=(0, self._AGAIN))
        self._call("aclrtSetDevice", ctypes.c_int32(device))

    def _call(self, name: str, *arguments: Any, fine: tuple[int, ...] = (0,)) -> None:
        code = getattr(self._acl, name)(*arguments)
        if code not in fine:
            raise Trouble("device", f"{name} of CANN answers {code}")

    def allocate(self, size: int) -> int:
        whole = -(-size // _PAGE) * _PAGE
        address = ctypes.c_void_p()
        self._call("aclrtMalloc", ctypes.byref(address), ctypes.c_size_t(whole + _PAGE), self._HUGE_FIRST)
        first = address.value or 0
        return first + (_PAGE - first % _PAGE) % _PAGE

    def put(self, address: int, data: bytes) -> None:
        size = ctypes.c_size_t(len(data))
        self._call("aclrtMemcpy", ctypes.c_void_p(address), size, data, size, self._TO_DEVICE)

    def get(self, address: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        length = ctypes.c_size_t(size)
        self._call("aclrtMemcpy", data, length, ctypes.c_void_p(address), length, self._TO_HOST)
        return data.raw


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def say(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


class End:
    """An engine, and memory that it has registered."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        try:
            engine = importlib.import_module("mooncake.engine")
        except (ImportError, OSError) as error:  # a library that is missing
            raise Trouble("mooncake", f"mooncake.engine cannot be imported: {error}") from None
        self.memory: Memory = Npu(spec["device"]) if spec["protocol"] == "ascend" else Host()
        self.engine = engine.TransferEngine()
        name = spec["address"] if spec["metadata"] == P2P else spec["name"]
        # the engine itself decides by its devices and environment what it installs; protocol is for its own memory
        code = self.engine.initialize(name, spec["metadata"], spec["protocol"], ",".join(spec["devices"]))
        if code:
            raise Trouble("engine", f"the transfer engine cannot be initialised: it answers {code}")
        host = f"[{spec['address']}]" if ":" in spec["address"] else spec["address"]
        self.segment = f"{host}:{self.engine.get_rpc_port()}" if spec["metadata"] == P2P else name

    def register(self, size: int) -> int:
        address = self.memory.allocate(size)
        code = self.engine.register_memory(address, size)
        if code:
            raise Trouble("memory", f"{size} bytes of memory cannot be registered: the transfer engine answers {code}")
        return address


def offer(spec: Mapping[str, Any]) -> None:
    """Memory that others read, and a place for what each of them writes; told what arrived when it is ended."""
    # before there are threads, which would take the signal otherwise
    ending = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    end = End(spec)
    size = spec["size"]
    whole = size * (1 + len(spec["sources"]))
    address = end.register(whole)
    data = os.urandom(size)
    end.memory.put(address, data)
    slots = {source: address + size * (1 + place) for place, source in enumerate(spec["sources"])}
    say(
        event="offered",
        segment=end.segment,
        address=address,
        length=whole,
        size=size,
        digest=digest(data),
        slots=slots,
    )
    signal.sigwait(ending)
    say(event="received", digests={source: digest(end.memory.get(slot, size)) for source, slot in slots.items()})


def prove(spec: Mapping[str, Any]) -> None:
    """Reads from each peer, writes to it, and reads back what was written."""
    end = End(spec)
    size = spec["size"]
    here = end.register(size)
    say(event="engine", segment=end.segment)
    for peer in spec["peers"]:
        sys.stderr.write(f"{MARK}{peer['name']}\n")
        sys.stderr.flush()
        say(event="begun", peer=peer["name"])
        say(event="proved", peer=peer["name"], **_exchange(end, here, size, spec["patience"], peer))


def _exchange(end: End, here: int, size: int, patience: float, peer: Mapping[str, Any]) -> Dict[str, Any]:
    read = _timed(end.engine.transfer_sync_read, peer["segment"], here, peer["address"], size)
    read["digest"] = digest(end.memory.get(here, size))
    if read["code"] and read["seconds"] > patience:  # it hangs, and would again
        return {"read": read, "hangs": True}
    data = os.urandom(size)
    end.memory.put(here, data)
    write = _timed(end.engine.transfer_sync_write, peer["segment"], here, peer["slot"], size)
    write["digest"] = digest(data)
    end.memory.put(here, bytes(size))
    back = _timed(end.engine.transfer_sync_read, peer["segment"], here, peer["slot"], size)
    back["digest"] = digest(end.memory.get(here, size))
    return {"read": read, "write": write, "back": back, "hangs": False}


def _timed(move: Any, segment: str, here: int, there: int, size: int) -> Dict[str, Any]:
    begun = time.monotonic()
    code = move(segment, here, there, size)
    return {"code": code, "seconds": time.monotonic() - begun}


def main() -> None:
    spec = json.load(sys.stdin)
    try:
        {"offer": offer, "prove": prove}[spec["action"]](spec)
    except Trouble as trouble:
        say(event="failed", rule=trouble.rule, problem=str(trouble))
        raise SystemExit(1) from None


if __name__ == "__main__":
    # beside this file there may be a folder with the name of a package
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    main()
