# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a mapping into a frozen dataclass whose fields say what may stand in it.

The dataclasses are the schema: a field made with key() is a key of the file. What is wrong is reported, nothing raises.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import sizes
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import MAX_PORT
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import normal

# larger than any size or timeout that makes sense; what is beyond would only keep the controller busy
MOST = 1_000_000


@dataclass(frozen=True)
class Key:
    kind: str
    default: Any
    choices: tuple[str, ...] = ()
    section: Any = None
    hint: str = ""
    least: int = 1
    most: int = MOST

    @property
    def required(self) -> bool:
        return self.default is MISSING


def key(
    kind: str,
    default: Any = MISSING,
    *,
    choices: tuple[str, ...] = (),
    section: Any = None,
    hint: str = "",
    least: int = 1,
    most: int = MOST,
) -> Any:
    """A key of the file. hint says what it means for the plan when a required key is missing."""
    # called from the bodies of the dataclasses
    # pylint: disable-next=invalid-field-call
    return field(metadata={"key": Key(kind, default, choices, section, hint, least, most)})


def keys(section: Any) -> dict[str, Key]:
    return {item.name: item.metadata["key"] for item in fields(section) if "key" in item.metadata}


def suggestion(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean {close[0]}?" if close else ""


class _Wrong(Exception):
    """A value that cannot be taken as it is. With instead the reading goes on, so that later faults show too."""

    def __init__(self, message: str, fix: str, rule: str = "schema-type", instead: str | None = None) -> None:
        super().__init__(message)
        self.rule, self.message, self.fix, self.instead = rule, message, fix, instead


@dataclass
class Reader:
    report: Report
    # entries that were left out because something in them is wrong; later rules must not complain about their absence
    broken: set[str] = field(default_factory=set)

    def section(self, cls: Any, raw: Any, where: str = "", **extra: Any) -> Any | None:
        """An instance of cls, or None when a required part is missing or wrong."""
        known = keys(cls)
        if not isinstance(raw, Mapping):
            self.report.error(
                "schema-type",
                where or "topology",
                f"has to be a mapping with {', '.join(known)}, not {_kind_of(raw)}.",
                "write it as `key: value` lines.",
            )
            self.broken.add(where)
            return None
        self._unknown_keys(raw, known, where)
        values: dict[str, Any] = {}
        complete = True
        for name, spec in known.items():
            place = f"{where}.{name}" if where else name
            value = raw.get(name)
            if value is None:
                if spec.required:
                    self.report.error(
                        "schema-required",
                        place,
                        f"is required{spec.hint and ': ' + spec.hint}.",
                        f"add `{name}:` there.",
                    )
                    complete = False
                values[name] = _default(spec)
                continue
            try:
                values[name] = self._value(spec, value, place)
            except _Wrong as wrong:
                self.report.error(wrong.rule, place, wrong.message, wrong.fix)
                complete = complete and not (spec.required and wrong.instead is None)
                values[name] = wrong.instead or _default(spec)
            if spec.section is not None and spec.required and values[name] is None:
                complete = False
        if not complete:
            self.broken.add(where)
            return None
        # fields beside the keys say what the file only implies: where the entry stands, its name, its side
        implied = {"where": where, "place": where, **extra}
        return cls(**values, **{name: value for name, value in implied.items() if name in _unkeyed(cls)})

    def _unknown_keys(self, raw: Mapping[Any, Any], known: Collection[str], where: str) -> None:
        for name in raw:
            if name not in known:
                place = f"{where}.{name}" if where else str(name)
                self.report.error(
                    "schema-unknown-key",
                    place,
                    "is not a key of the topology, so it would have no effect.",
                    suggestion(str(name), known) or f"{where or 'the file'} takes {', '.join(known)}.",
                )

    def _value(self, spec: Key, value: Any, place: str) -> Any:
        if spec.kind == "section":
            return self.section(spec.section, value, place)
        if spec.kind == "sections":
            if not isinstance(value, list):
                raise _Wrong(
                    f"has to be a list, not {_kind_of(value)}.", "write each entry as `- {name: ..., host: ...}`."
                )
            read = [self.section(spec.section, item, f"{place}[{n}]", kind=place) for n, item in enumerate(value)]
            return tuple(item for item in read if item is not None)
        if spec.kind == "named":
            if not isinstance(value, Mapping):
                raise _Wrong(f"has to be a mapping, not {_kind_of(value)}.", "write each entry as `name: {...}`.")
            return self._named(spec.section, value, place)
        return _SCALARS[spec.kind](value, spec)

    def _named(self, section: Any, raw: Mapping[Any, Any], place: str) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for name, item in raw.items():
            at = f"{place}.{name}"
            if not isinstance(name, str):
                # the number 1 and the text "1" would be two hosts here and one for Ansible
                self.report.error("schema-type", at, _no_name(name), _QUOTE_NAME)
                self.broken.add(at)
                continue
            read = self.section(section, item or {}, at, name=str(name))
            if read is not None:
                named[str(name)] = read
        return named


def _unkeyed(section: Any) -> set[str]:
    return {item.name for item in fields(section)} - set(keys(section))


def _default(spec: Key) -> Any:
    if spec.required:
        return None
    if spec.kind == "size" and spec.default is not None:
        return _size(spec.default, spec)
    return dict(spec.default) if isinstance(spec.default, dict) else spec.default


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} (a yes/no value)"
    if isinstance(value, str):
        return f"the text {str(value)!r}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, (Mapping, list, tuple)):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    if type(value).__name__ in _ENCRYPTED:
        return "an encrypted value"
    return "nothing" if value is None else f"a {type(value).__name__}"


# what Ansible makes of !vault, since 2.19 and before
_ENCRYPTED = ("EncryptedString", "AnsibleVaultEncryptedUnicode")
_QUOTE_NAME = 'give it a name, in quotes if YAML would read something else in it, such as "1" or "no".'


def _no_name(name: Any) -> str:
    return f"stands under {_kind_of(name)}, but a name has to be text."


def _text(value: Any, spec: Key) -> str:
    if not isinstance(value, str):
        raise _Wrong(f"has to be text, not {_kind_of(value)}.", "put it into quotes.")
    # str() also takes off the wrapping that ansible-core gives to values read from a file
    text = str(value)
    if not text.strip():
        raise _Wrong("is empty.", "give it a value or leave the key out.")
    if spec.choices and text not in spec.choices:
        raise _Wrong(
            f"cannot be {text!r}.",
            suggestion(text, spec.choices) or f"choose one of {', '.join(spec.choices)}.",
            "schema-choice",
        )
    return text


def _integer(value: Any, spec: Key) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Wrong(f"has to be a whole number, not {_kind_of(value)}.", "write the number alone, without quotes.")
    if value < spec.least:
        raise _Wrong(f"is {value}, but at least {spec.least} is needed.", f"set {spec.least} or more.", "schema-range")
    if value > spec.most:
        raise _Wrong(f"is {value}, but at most {spec.most} makes sense.", f"set {spec.most} or less.", "schema-range")
    return int(value)


def _boolean(value: Any, spec: Key) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"has to be true or false, not {_kind_of(value)}.", "write true or false, without quotes.")
    return value


def _share(value: Any, spec: Key) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Wrong(f"has to be a number from 0 to 1, not {_kind_of(value)}.", "write it as 0.9, without quotes.")
    if not 0 <= value <= 1:  # what is no number at all, .nan, is out of it too
        raise _Wrong(f"is {value}, but has to lie between 0 and 1.", "90 % is 0.9.", "schema-range")
    return float(value)


def _port(value: Any, spec: Key) -> int:
    if _integer(value, spec) > MAX_PORT:
        raise _Wrong(
            f"is {value}, but ports end at {MAX_PORT}.", "choose a port between 1024 and 29999.", "port-out-of-range"
        )
    return int(value)


def _size(value: Any, spec: Key) -> int:
    """Bytes. The default of such a key is text, too, for that is what people read in the manual."""
    zero = str(value).strip() == "0" and not isinstance(value, bool)
    found = 0 if zero else sizes.size(value)
    if found is None:
        raise _Wrong(f"has to be a number of bytes, not {_kind_of(value)}.", "write a number or 512MiB, 4GiB, 2TiB.")
    if found < spec.least:
        raise _Wrong(
            f"is {value}, but at least {spec.least} bytes are needed.", f"set {spec.least} or more.", "schema-range"
        )
    return found


def _version(value: Any, spec: Key) -> str:
    if isinstance(value, float):
        raise _Wrong(
            f"was read as the number {value}, which drops final zeros.",
            f'put it into quotes: "{value}".',
            instead=str(value) if math.isfinite(value) else None,
        )
    text = _text(value, spec)
    try:
        return normal(text)
    except ValueError as error:
        raise _Wrong(
            f"{error}; which ports and settings are right depends on it.",
            "write a release such as 0.32.0 or 0.23.0rc1.",
            "version-invalid",
        ) from None


def _address(value: Any, spec: Key) -> str:
    text = _text(value, spec)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise _Wrong(
            f"{text!r} is not an IP address; processes bind it and tell it to their peers, so a name does not do.",
            "write the address that the other hosts reach, such as 192.0.2.11.",
            "address-invalid",
        ) from None
    if address.is_unspecified or address.is_multicast:
        raise _Wrong(
            f"{text} is not the address of one host, so peers could not connect to it.",
            "write the address that the other hosts reach, such as 192.0.2.11.",
            "address-invalid",
        )
    return str(address)


def _items(value: Any, convert: Callable[[Any], Any], what: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _Wrong(f"has to be a list of {what}, not {_kind_of(value)}.", "write it as `[a, b]`.")
    return tuple(convert(item) for item in value)


def _word(value: Any) -> str:
    """Text as a program sees it: a number is fine, a YAML true is not, for programs differ in how they spell it."""
    if type(value).__name__ in _ENCRYPTED:
        raise _Wrong(_IN_CLEAR, _ELSEWHERE)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _Wrong(
            f"holds {_kind_of(value)}, but has to hold texts or numbers.", 'put it into quotes, such as "1" or "true".'
        )
    return str(value)


def _words(value: Any, spec: Key) -> tuple[str, ...]:
    return _items(value, _word, "texts")


def _names(value: Any, spec: Key) -> tuple[str, ...]:
    return _items(value, lambda item: _text(item, spec), "texts")


def _ports(value: Any, spec: Key) -> tuple[int, ...]:
    return _items(value, lambda item: _port(item, spec), "ports")


def _numbers(value: Any, spec: Key) -> tuple[int, ...]:
    return _items(value, lambda item: _integer(item, spec), "numbers")


def _variables(value: Any, spec: Key) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _Wrong(
            f"has to be a mapping from name to value, not {_kind_of(value)}.", "write it as `NAME: value` lines."
        )
    _check_names(value)
    return {str(name): _word(item) for name, item in value.items()}


_IN_CLEAR = "holds an encrypted value, which would stand readable in a unit file."
_ELSEWHERE = "keep secrets out of arguments and variables; let the program read them from a file that only it may read."


def _json(value: Any, spec: Key) -> dict[str, Any]:
    """A mapping that becomes JSON, so what YAML alone knows, such as dates, cannot stand in it."""
    return {name: _json_value(item) for name, item in _mapping(value, spec).items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        _check_names(value)
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if type(value).__name__ in _ENCRYPTED:
        raise _Wrong(_IN_CLEAR, _ELSEWHERE)
    raise _Wrong(f"holds {_kind_of(value)}, which JSON does not know.", "put it into quotes.")


def _mapping(value: Any, spec: Key) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Wrong(
            f"has to be a mapping from name to value, not {_kind_of(value)}.", "write it as `name: value` lines."
        )
    _check_names(value)
    return value


def _check_names(value: Mapping[Any, Any]) -> None:
    for name in value:
        if not isinstance(name, str):
            raise _Wrong(f"holds a value that {_no_name(name)}", _QUOTE_NAME)


_SCALARS: dict[str, Callable[[Any, Key], Any]] = {
    "text": _text,
    "integer": _integer,
    "boolean": _boolean,
    "share": _share,
    "port": _port,
    "size": _size,
    "version": _version,
    "address": _address,
    "names": _names,
    "words": _words,
    "ports": _ports,
    "numbers": _numbers,
    "variables": _variables,
    "mapping": _mapping,
    "json": _json,
}
