# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV cache of one engine: blocks that hold numbers, and requests that wait to be fetched."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


class Blocks:
    def __init__(self, total: int, size: int) -> None:
        self.total = total
        self.size = size
        self._free = list(range(total, 0, -1))  # block 0 is vLLM's null block
        self._content: dict[int, list[int]] = {}
        self._changed = threading.Condition()

    @property
    def usage(self) -> float:
        return 1 - len(self._free) / self.total

    def allocate(self, tokens: int, cancelled: threading.Event) -> list[int] | None:
        """Blocks for that many tokens, waiting until there are enough; None when cancelled or never enough."""
        count = max(1, -(-tokens // self.size))
        if count > self.total:
            return None
        with self._changed:
            while len(self._free) < count:
                if cancelled.is_set():
                    return None
                self._changed.wait(0.1)
            return [self._free.pop() for _block in range(count)]

    def write(self, blocks: Sequence[int], kv: Sequence[int]) -> None:
        with self._changed:
            for index, block in enumerate(blocks):
                self._content[block] = list(kv[index * self.size : (index + 1) * self.size])

    def read(self, block: int) -> list[int] | None:
        """None for a block that holds nothing (any more)."""
        with self._changed:
            content = self._content.get(block)
            return list(content) if content is not None else None

    def free(self, blocks: Sequence[int]) -> None:
        with self._changed:
            for block in blocks:
                self._content.pop(block, None)
                self._free.append(block)
            self._changed.notify_all()


@dataclass
class Held:
    """A prompt whose blocks prefill keeps until every worker was told that decode has them."""

    blocks: list[int]
    since: float
    done: set[int] = field(default_factory=set)


class Holder:
    def __init__(self, blocks: Blocks, workers: int, timeout: float) -> None:
        self._blocks = blocks
        self._workers = workers
        self.timeout = timeout
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()

    def hold(self, request_id: str, blocks: list[int]) -> None:
        with self._lock:
            self._held[request_id] = Held(blocks, time.monotonic())

    def fetched(self, request_id: str, worker: int) -> bool:
        """One worker was told that the request is done; whether the request was known."""
        with self._lock:
            held = self._held.get(request_id)
            if held is None:
                return False
            held.done.add(worker)
            if len(held.done) < self._workers:
                return True
            del self._held[request_id]
        self._blocks.free(held.blocks)
        return True

    def expire(self) -> list[str]:
        """Free what nobody fetched in time; the ids of these requests."""
        now = time.monotonic()
        with self._lock:
            late = [name for name, held in self._held.items() if now - held.since > self.timeout]
            gone = [self._held.pop(name) for name in late]
        for held in gone:
            self._blocks.free(held.blocks)
        return late
