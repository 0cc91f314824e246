# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in what is kept: a value goes, and a short digest stays, so that it still shows when it was changed.

The rules for what targets show stand in module_utils/masking.py, which the controller side may not import.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

MASK = "***"
_SECRETS = {
    *("key", "keys", "apikey", "token", "tokens", "auth", "authorization"),
    *("secret", "secrets", "pass", "passwd", "password", "passwords", "passphrase", "credential", "credentials"),
}
_INSIDE = re.compile(r"passw|secret|credential|apikey|passphrase")
# --max-num-batched-tokens and its like count
_COUNTED = {"max", "min", "num", "batched", "speculative", "new", "prompt", "size", "per"}
_USER = re.compile(r"(\w[\w+.-]{0,30}://)[^\s/]+@")
_PAIR = re.compile(r"""(["'])([\w.-]+)\1(\s*:\s*)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,}\]]+)""")
_ASSIGNED = re.compile(r"(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*)(\s*[:=]\s*)(\S+)")
# of a scalar, which begins with its anchor and tag
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_COMMENT = re.compile(r"#.*")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache(maxsize=4096)  # the same few names, for each of thousands of processes
def is_secret(name: str) -> bool:
    """Whether a variable, option or key of that name holds one."""
    words = set(re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()))
    return bool((words & _SECRETS and not words & _COUNTED) or _INSIDE.search(name.lower()))


def hidden(name: str, value: Any) -> Any:
    """A value as it may be kept: of a secret its digest only."""
    if is_secret(name) and not isinstance(value, bool | None):
        digest = hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:8]
        return f"{MASK} (sha256 {digest})"
    if isinstance(value, str):
        return _plain(value)
    return [hidden(name, item) for item in value] if isinstance(value, list) else value


def hidden_tree(value: Any, name: str = "") -> Any:
    """What a module returned, with every value whose key names a secret hidden."""
    if isinstance(value, Mapping):
        return {str(key): hidden_tree(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hidden_tree(inner, name) for inner in value]
    return hidden(name, value)


def hidden_yaml(text: str) -> str:
    """A YAML file without its secrets; everything else stays as it was written, comments too."""
    if text.startswith("$ANSIBLE_VAULT"):
        return text
    try:
        spans = sorted(_spans(yaml.compose(text, Loader=_LOADER)).items(), reverse=True)
    except yaml.YAMLError:
        return f"# {MASK} not kept: it could not be read, so nothing in it can be told from a secret\n"
    for (first, last), kept in spans:
        old = text[first:last]
        before = _PROPERTIES.match(old)[0]  # type: ignore[index]  # matches the empty text, too
        text = text[:first] + before + kept + ("\n" if old.endswith("\n") else "") + text[last:]
    return _COMMENT.sub(lambda comment: _ASSIGNED.sub(_assigned, comment[0]), text)


def _spans(root: Any) -> dict[tuple[int, int], str]:
    """Where scalars stand that are kept in another form."""
    found: dict[tuple[int, int], str] = {}
    todo: list[tuple[Any, bool]] = [(root, False)]
    entered: dict[int, bool] = {}
    while todo:
        node, secret = todo.pop()
        # an anchor may stand at a harmless key and be a secret at another one
        if node is None or (id(node) in entered and entered[id(node)] >= secret):
            continue
        entered[id(node)] = secret
        if isinstance(node, yaml.MappingNode):
            todo += [(value, secret or is_secret(str(key.value))) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            before = ""
            for item in node.value:
                option = item.value if isinstance(item, yaml.ScalarNode) else ""
                todo.append((item, secret or (before.startswith("-") and "=" not in before and is_secret(before))))
                before = str(option)
        else:
            kept = MASK if secret and not node.tag.endswith("vault") else _plain(node.value)
            if kept != node.value and node.value:
                found[node.start_mark.index, node.end_mark.index] = _quoted(kept)
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("\n", " ").replace("'", "''") + "'"


def _plain(text: str) -> str:
    """A text that may hold a secret in its midst: user:password@, --hf-token=..., {"api_key": ...}."""
    text = _USER.sub(rf"\1{MASK}@", text)
    text = _PAIR.sub(lambda m: f"{m[1]}{m[2]}{m[1]}{m[3]}{m[1]}{MASK}{m[1]}" if is_secret(m[2]) else m[0], text)
    return _ASSIGNED.sub(_assigned, text) if "=" in text else text


def _assigned(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{MASK}" if is_secret(match[1]) else match[0]
