# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module's main() in this process and look at what it would print."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils import basic

Answer = dict[str, Any]
RunModule = Callable[..., Answer]


class Ended(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.answer = answer


@pytest.fixture
def run_module(monkeypatch: pytest.MonkeyPatch) -> RunModule:
    def end(failed: bool) -> Callable[..., None]:
        def leave(self: basic.AnsibleModule, msg: str | None = None, **answer: Any) -> None:
            said = {"msg": msg} if msg is not None else {}
            # as it goes over the wire
            raise Ended(json.loads(json.dumps({"failed": failed, **said, **answer})))

        return leave

    monkeypatch.setattr(basic.AnsibleModule, "exit_json", end(False))
    monkeypatch.setattr(basic.AnsibleModule, "fail_json", end(True))

    def run(module: ModuleType, check: bool = False, **params: Any) -> Answer:
        arguments = {
            **params,
            "_ansible_check_mode": check,
            "_ansible_remote_tmp": "/tmp",
            "_ansible_keep_remote_files": False,
        }
        encoded = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", encoded)
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)  # from ansible-core 2.19 on
        with pytest.raises(Ended) as ended:
            module.main()
        return ended.value.answer

    return run
