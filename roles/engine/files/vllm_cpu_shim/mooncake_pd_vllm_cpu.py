# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM plugin: lets vLLM's own Mooncake connectors run, unchanged, on the CPU platform.

The connectors themselves know nothing of the device: TransferEngine registers plain memory. Two lines around it
ask torch for an accelerator, and torch without one raises. Both are answered here as a machine with one device
would answer them. Lines of vLLM v0.32.0, below vllm/distributed/kv_transfer/kv_connector/v1/mooncake/:

* mooncake_connector.py:1186 torch.accelerator.current_device_index()
  -> RuntimeError: Cannot access accelerator device when none is available.
* store/worker.py:1968 torch.cuda.Event()
  -> RuntimeError: Tried to instantiate dummy base class Event

vLLM loads the entry points of group vllm.general_plugins in each of its processes, and may call them again.
On any other platform, or beside a real accelerator, the plugin does nothing.
"""

from __future__ import annotations

from typing import Any

CPU_DEVICE_INDEX = 0


class FinishedEvent:
    """An event of a device whose work is done when the call returns: nothing is ever left to wait for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


def cpu_device_index() -> int:
    """The index of the only device there is."""
    return CPU_DEVICE_INDEX


def register() -> None:
    """Entry point: called by vLLM in every process before the engine is built."""
    # Only here: this module is also read where there is no vLLM yet, as when it is built.
    import torch  # noqa: PLC0415
    from vllm.platforms import current_platform  # noqa: PLC0415

    if not current_platform.is_cpu() or torch.accelerator.is_available():
        return
    torch.accelerator.current_device_index = cpu_device_index
    torch.cuda.Event = FinishedEvent
