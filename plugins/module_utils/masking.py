# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets in what is shown: command lines, values of variables, texts of tools. In doubt too much is masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest

MASK = "***"
_LOOKED_AT = 64 << 10  # characters; what stands behind is not shown
_RAW = 2000
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
# one start for each run of letters, for a long one must not be looked at from each of its letters
_NAME = re.compile(r"(?<![\w.-])([\w.-]+)(?:=|[ \t]+=[ \t]+)")
_VALUE = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*'|\S)+""")
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_AROUND = "[]{}()'\",;"  # of lists of words, as languages print them
_SCHEME = re.compile(r"\w[\w+.-]{0,30}://")
_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
# JSON and the like: {"api_key": "k"}, {"api_key": ["k", "l"]}, ["--api-key", "k", "l"]
_PAIR = re.compile(rf"""(["'])([\w.-]+)\1(\s*:\s*)(?:\[[^\]]*\]|{_STRING})""")
_LIST = re.compile(rf"""(["'])(--?[\w.-]+)\1(\s*,\s*){_STRING}(?:\s*,\s*(?!["']--?[A-Za-z]){_STRING})*""")
_HEADER = re.compile(
    r"(?i)\b(bearer\s+|authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|digest|token|negotiate)?\s*)(\S+)"
)


def is_secret(name: str) -> bool:
    return bool(_SECRET.search(name))


def masked(text: str) -> str:
    """A text without what looks like a secret."""
    parts = re.split(r"(\s+)", _strings(text[:_LOOKED_AT]))
    words, between = parts[::2], parts[1::2]
    pairs = zip_longest(_words(words, between), between, fillvalue="")
    return _joined("".join(chain.from_iterable(pairs)))


def masked_command(words: Sequence[str]) -> str:
    """A command line in which a secret may have blanks."""
    return _joined(" ".join(_words([word[:_LOOKED_AT] for word in words])))


def masked_proxy(value: str) -> str:
    """Also without user:password@ that stands in front of a host without a scheme."""
    before, at, host = value.rpartition("@")
    scheme = _SCHEME.match(before)
    return f"{scheme.group() if scheme else ''}{MASK}@{host}" if at else value


def raw(text: str, most: int = _RAW) -> str:
    """Of a tool's text what a report may show. It is cut behind, so that no half of a secret goes unknown."""
    return masked(text)[:most]


def _words(words: Iterable[str], between: Iterable[str] = ()) -> Iterator[str]:
    """The values of an option are all words up to the next option or to the end of the line, and at least one."""
    hiding = first = False
    for word, blank in zip_longest(words, between, fillvalue=""):
        bare = word.strip(_AROUND)
        option = bool(_OPTION.fullmatch(bare.partition("=")[0]))
        if option and (is_secret(bare) or bare.startswith("--") or not first):
            hiding = first = "=" not in bare and is_secret(bare)
            yield _one(word)
        elif hiding and word not in ("", "\\"):
            first = False
            yield MASK
        else:
            yield _one(word)
        hiding = hiding and (first or "\n" not in blank or word == "\\")


def _one(word: str) -> str:
    """A word of a command may have blanks: a value, or a command of its own."""
    for match in _NAME.finditer(word):
        if is_secret(match.group(1)) and match.end() < len(word) and not re.search(r"\s", word[: match.start()]):
            return word[: match.end()] + MASK
    return masked(word) if re.search(r"\s", word) else word


def _joined(text: str) -> str:
    return _urls(_HEADER.sub(rf"\1{MASK}", _strings(text)))


def _strings(text: str) -> str:
    """What stands in quotes, which may have blanks."""
    return _assigned(_LIST.sub(_quoted, _PAIR.sub(_quoted, text)))


def _assigned(text: str) -> str:
    parts = []
    at = 0
    for match in _NAME.finditer(text):
        if match.start() < at or not is_secret(match.group(1)):
            continue
        value = _VALUE.match(text, match.end())
        if value:
            parts += [text[at : match.end()], MASK]
            at = value.end()
    return "".join([*parts, text[at:]])


def _quoted(match: re.Match[str]) -> str:
    quote, name, between = match.groups()
    return f"{quote}{name}{quote}{between}{quote}{MASK}{quote}" if is_secret(name) else match.group()


def _urls(text: str) -> str:
    """Passwords hold ':', '/' and '@' when nobody has quoted them, so all up to the last '@' of the word goes."""
    return re.sub(r"\S+", lambda match: _url(match.group()), text) if "://" in text and "@" in text else text


def _url(word: str) -> str:
    begin, end = word.find("://"), word.rfind("@")
    return f"{word[: begin + 3]}{MASK}{word[end:]}" if 0 <= begin < end else word
