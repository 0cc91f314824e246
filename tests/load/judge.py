# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an answer is worth, by its body; the status alone says nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .questions import Question

OK = "ok"
CANCELLED = "cancelled"  # by the client, as it meant to
FAULTS = {
    "failed": "no connection, another status than 200, or an error in the body",
    "empty": "200 without text",
    "truncated": "broken off, no [DONE], another end than by length, or fewer tokens than asked for",
    "wrong": "another text than the first answer to the same question",
    "slow": "all right, but over the limit",
    "hung": "no end within the time that a client waits",
}


@dataclass(frozen=True)
class Verdict:
    kind: str
    why: str = ""
    text: str = ""


@dataclass
class Reply:
    """As it came: with broken, only a part of it came."""

    status: int | None = None
    body: bytes = b""
    broken: str = ""


@dataclass
class _Content:
    text: str = ""
    finish: str | None = None
    tokens: int | None = None
    done: bool = False
    error: Any = None

    def add(self, chat: bool, stream: bool, said: dict[str, Any]) -> None:
        self.error = self.error or said.get("error")
        if said.get("usage"):
            self.tokens = said["usage"].get("completion_tokens")
        for choice in said.get("choices") or []:
            part = choice.get("delta" if stream else "message") or {} if chat else choice
            self.text += part.get("content" if chat else "text") or ""
            self.finish = choice.get("finish_reason") or self.finish


def judge(question: Question, reply: Reply) -> Verdict:
    """One answer by itself, without those that it is compared with."""
    if reply.status != 200:
        return Verdict("failed", reply.broken or f"status {reply.status}")
    if not reply.body and not reply.broken:
        return Verdict("empty", "no body")
    try:
        content = _read(question, reply.body)
    except (ValueError, AttributeError, TypeError) as error:
        return Verdict("truncated", reply.broken or f"no answer of the API: {error}")
    checks = (
        (content.error, "failed", f"error in the body: {content.error}"),
        (reply.broken, "truncated", reply.broken),
        (not content.done, "truncated", "stream without [DONE]"),
        (not content.text, "empty", f"no text, finish_reason {content.finish}"),
        (content.finish != "length", "truncated", f"finish_reason {content.finish}"),
        (content.tokens != question.tokens, "truncated", f"{content.tokens} of {question.tokens} tokens"),
    )
    return next((Verdict(kind, why) for fault, kind, why in checks if fault), Verdict(OK, text=content.text))


def _read(question: Question, body: bytes) -> _Content:
    content = _Content(done=not question.stream)
    if not question.stream:
        content.add(question.chat, False, json.loads(body))
        return content
    # the part behind the last line end is no whole event
    for line in body.split(b"\n")[:-1]:
        if line.strip() == b"data: [DONE]":
            content.done = True
        elif line.startswith(b"data:"):
            content.add(question.chat, True, json.loads(line.removeprefix(b"data:")))
    return content
