# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.host import environment
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("LD_LIBRARY_PATH", "/usr/local/lib", "/usr/local/lib"),
        ("ASCEND_RT_VISIBLE_DEVICES", "0,1", "0,1"),
        ("VLLM_API_KEY", "abc", None),
        ("MC_REDIS_PASSWORD", "abc", None),
        ("HCCL_secret_x", "abc", None),
        ("HF_TOKEN", "abc", None),
        ("HOME", "/root", None),
        ("https_proxy", "http://u:p@192.0.2.3:3128", "http://***@192.0.2.3:3128"),
        ("HTTP_PROXY", "u:p@192.0.2.3:3128", "***@192.0.2.3:3128"),
        ("no_proxy", "localhost,192.0.2.0/24", "localhost,192.0.2.0/24"),
        ("all_proxy", "socks5h://192.0.2.3:1080", "socks5h://192.0.2.3:1080"),
        ("VLLM_ARGS", "--port=1 --api-key=abc --x", "--port=1 --api-key=*** --x"),
    ],
)
def test_values_that_are_shown(name: str, value: str, shown: str | None) -> None:
    assert environment.shown(name, value) == shown


def test_environ_of_a_process() -> None:
    assert environment.parse_environ("A=1\0B=x=y\nz\0broken\0=none\0") == {"A": "1", "B": "x=y\nz"}
    assert environment.parse_environ("") == {}


def test_names_in_a_property_of_systemd() -> None:
    assert environment.parse_property('PATH=/usr/bin "MC_NOTE=a b" X=') == ["MC_NOTE", "PATH", "X"]
    assert environment.parse_property("A=it's B=1") == ["A", "B"]
    assert environment.parse_property("") == []


def test_settings_of_files() -> None:
    text = """
    # http_proxy=http://no
    export http_proxy="http://u:p@192.0.2.3:3128"   # ours
    NO_PROXY=localhost,.example.net
    unset https_proxy
    my_http_proxy_port=3
    ftp_proxy='broken
    """
    assert environment.parse_settings(text) == [
        ("http_proxy", "http://u:p@192.0.2.3:3128"),
        ("NO_PROXY", "localhost,.example.net"),
        ("ftp_proxy", "'broken"),
    ]


def test_proxies_of_the_unit_and_of_files(tmp_path: Path) -> None:
    look = trees.look(
        tmp_path,
        {
            "/etc/environment": "PATH=/bin\nhttp_proxy=http://me:secret@192.0.2.3:3128\n",
            "/etc/profile.d/proxy.sh": "export no_proxy=localhost\n",
            "/etc/profile.d/proxy.csh": "setenv no_proxy x\n",
        },
    )
    assert environment.proxies(look, {"HTTPS_PROXY": "http://192.0.2.3", "PATH": None}) == [
        {"where": "unit", "name": "HTTPS_PROXY", "value": "http://192.0.2.3"},
        {"where": "/etc/environment", "name": "http_proxy", "value": "http://***@192.0.2.3:3128"},
        {"where": "/etc/profile.d/proxy.sh", "name": "no_proxy", "value": "localhost"},
    ]
    assert look.unknowns == []
    environment.proxies(look, None)
    assert trees.what(look.unknowns) == {"proxies"}
