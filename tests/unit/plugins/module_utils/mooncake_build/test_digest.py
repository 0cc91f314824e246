# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import digest

GIVEN: dict[str, Any] = {
    "source": "commit:" + "a" * 40,
    "options": {"USE_ASCEND_DIRECT": "ON"},
    "key": "debian-12-x86_64-py3.11",
    "cann": {"path": "/opt/cann", "version": "8.5.1", "missing": []},
    "compiler": {"family": "gcc", "version": "12.2.0", "c": "/usr/bin/gcc", "cxx": "/usr/bin/g++"},
    "prefix": "/opt/m",
    "yalantinglibs": "tree:" + "b" * 64,
    "environment": {"PATH": "/bin", "CXXFLAGS": ""},
}


@pytest.mark.parametrize(
    "other",
    [
        {"source": "commit:" + "c" * 40},
        {"options": {"USE_ASCEND_DIRECT": "OFF"}},
        {"options": {}},
        {"key": "debian-13-x86_64-py3.13"},
        {"cann": {"path": "/opt/cann", "version": "8.5.2"}},
        {"cann": {"path": "/opt/other", "version": "8.5.1"}},
        {"cann": None},
        {"compiler": {"family": "gcc", "version": "12.3.0"}},
        {"prefix": "/opt/n"},
        {"yalantinglibs": "tree:" + "d" * 64},
        {"environment": {"CXXFLAGS": "-O1"}},
    ],
)
def test_all_that_decides_the_result_counts(other: dict[str, Any]) -> None:
    assert digest.of(**{**GIVEN, **other}) != digest.of(**GIVEN)


@pytest.mark.parametrize(
    "other",
    [
        {"environment": {"PATH": "/usr/bin", "HOME": "/x"}},
        {"compiler": {**GIVEN["compiler"], "cxx": "/usr/local/bin/g++"}},
        {"cann": {"path": "/opt/cann", "version": "8.5.1", "missing": ["x"]}},
    ],
)
def test_the_rest_does_not(other: dict[str, Any]) -> None:
    assert digest.of(**{**GIVEN, **other}) == digest.of(**GIVEN)


def test_the_key_names_the_platform() -> None:
    os = {"id": "openEuler", "version_id": "24.03 LTS", "arch": "aarch64"}
    assert digest.platform_key(os, "8.5.1", "3.11.6", True) == "openEuler-24.03_LTS-aarch64-cann8.5.1-py3.11"
    assert digest.platform_key(os, "8.5.1", "3.11.6", False) == "openEuler-24.03_LTS-aarch64-py3.11"
    assert digest.platform_key({**os, "version_id": ""}, None, "3.9.0", True) == "openEuler-aarch64-cann?-py3.9"
