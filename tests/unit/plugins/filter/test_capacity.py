# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import inspect

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.mooncake.pd.plugins.filter import capacity as plugin
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import dtypes
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity import configs

FILTER = plugin.FilterModule().filters()["capacity"]


def test_what_the_example_says() -> None:
    found = FILTER(configs.dense(), length=32768, pool_bytes="5TB", watermark=0.9)
    assert found["sequence"] == {
        "length": 32768,
        "bytes": {"value": 10 * 1024**3, "unit": "bytes", "unknown": None},
    }
    assert found["pool"]["sequences"] == {"value": 460, "unit": "sequences", "unknown": None}
    assert found.keys() == yaml.safe_load(plugin.RETURN)["_value"]["contains"].keys()


def test_sizes() -> None:
    shape = FILTER(configs.latent(), tp=8, pp=2, dp=4)["shape"]
    assert (shape["workers"], shape["heads"], shape["copies"]) == (64, 1, 8)
    assert [stage["value"] for stage in shape["stages"]] == [31 * 1152, 30 * 1152]
    assert (shape["worker"]["value"], shape["rank"]["value"]) == (31 * 1152, 8 * 70272)


def test_unknown() -> None:
    found = FILTER(configs.dense(layer_types=["new"] * 80), length=5)
    for figure in (found["token"], found["sequence"]["bytes"], found["shape"]["worker"], found["pool"]["bytes"]):
        assert figure["value"] is None
        assert figure["unknown"]
    assert found["shape"]["heads"] is None


def test_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"2 problems:\n.*num_hidden_layers.*\n.*options tp"):
        FILTER(configs.dense(num_hidden_layers=None), tp="8")


def test_documentation() -> None:
    options = yaml.safe_load(plugin.DOCUMENTATION)["options"]
    parameters = inspect.signature(plugin.capacity).parameters
    assert [*options] == ["_input", *[*parameters][1:]]
    for name, parameter in [*parameters.items()][1:]:
        assert options[name].get("default") == parameter.default, name
        assert parameter.kind is parameter.KEYWORD_ONLY
    assert tuple(options["dtype"]["choices"]) == dtypes.DTYPES
