# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WORDS = ["apple", "bridge", "candle", "engine", "forest", "garden", "harbour", "island", "river", "and", "then", "the"]
TOKENS = (4, 8, 12)


@dataclass(frozen=True)
class Question:
    chat: bool
    prompt: str
    tokens: int  # exactly so many are to come
    stream: bool
    leave: float | None = None  # the client goes away after this share of the time that its last answer took

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    @property
    def key(self) -> tuple[bool, str, int]:
        """Who asks the same is to get the same text, streamed or not."""
        return self.chat, self.prompt, self.tokens

    def body(self, model: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "max_tokens": self.tokens, "temperature": 0, "ignore_eos": True}
        body |= {"messages": [{"role": "user", "content": self.prompt}]} if self.chat else {"prompt": self.prompt}
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body


def questions(
    seed: int,
    *,
    prompts: int = 24,
    words: tuple[int, int] = (2, 30),
    streamed: float = 1 / 3,
    cancelled: float = 0.1,
) -> Iterator[Question]:
    """Without end. Prompts come again, so that answers can be compared; another seed has other prompts."""
    draw = random.Random(seed)
    pool = []
    for _number in range(prompts):
        # no cache knows this beginning from an earlier run
        first = "".join(draw.choices("bcdfghjklmnprstvz", k=7))
        pool.append(" ".join([first, *draw.choices(WORDS, k=draw.randint(*words))]))
    while True:
        yield Question(
            chat=draw.random() < 0.5,
            prompt=draw.choice(pool),
            tokens=draw.choice(TOKENS),
            stream=draw.random() < streamed,
            leave=draw.uniform(0.1, 0.9) if draw.random() < cancelled else None,
        )
