# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks a command line means."""

from __future__ import annotations

import pytest
from twin import options, shape
from twin.transfer_config import Refused


def of(words: str, vllm: str = "0.23.0", moe: bool = True) -> shape.Shape:
    return shape.of(options.parse(["m", *words.split()], vllm), vllm, moe)


def test_one_process_alone() -> None:
    its = of("-tp 8")
    assert (list(its.ranks), its.alone, its.api_servers, its.mode) == ([0], True, 1, shape.INTERNAL)


def test_external_rank() -> None:
    its = of("-dp 4 -dpn 2 -dpa 192.0.2.1 -dpp 12321 -tp 2")
    assert (list(its.ranks), its.alone, its.is_head, its.mode) == ([2], False, False, shape.EXTERNAL)
    assert (its.address, its.rpc_port, its.api_servers) == ("192.0.2.1", 12321, 1)


def test_internal_head_and_headless() -> None:
    head = of("-dp 32 -dpl 16 -dpa 192.0.2.3 --api-server-count 1")
    assert (head.is_head, head.mode, head.api_servers, len(head.ranks)) == (True, shape.INTERNAL, 1, 16)
    other = of("-dp 32 -dpl 16 -dpr 16 -dpa 192.0.2.3 --headless")
    assert (other.is_head, other.headless, other.start, other.api_servers) == (False, True, 16, 0)


def test_internal_on_one_host_is_alone() -> None:
    assert of("-dp 2 -dpl 2").alone
    assert of("-dp 2").alone


def test_api_servers_by_release() -> None:
    assert of("-dp 4", "0.11.0").api_servers == 1
    assert of("-dp 4", "0.18.0").api_servers == 4
    assert of("-dp 4 -asc 2", "0.18.0").api_servers == 2
    # a start rank on a host with an API means that each host balances for itself
    its = of("-dp 4 -dpl 2 -dpr 2")
    assert (its.mode, its.api_servers) == (shape.HYBRID, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--headless -asc 1 -dp 2 -dpl 1 -dpr 1",
            "--api-server-count=1 cannot be used with --headless (no API servers",
        ),
        ("-dp 2 -dpl 4", "data_parallel_size_local (4) cannot be greater than data_parallel_size (2)"),
        ("-dp 4 -dpl 2 -dpr 3 --headless", "do not fit"),
        ("-dp 2 -dpn 2", "data_parallel_rank (2) must be in the range [0, 2)"),
        ("-dp 2 -dpn 1 -dpr 1", "Cannot use more than one data parallel load balancing mode."),
        ("-dp 2 -dpn 1 -dpl 2", "requires `--data-parallel-size-local 1`; got 2."),
        ("-tp 0", "parallel sizes"),
    ],
)
def test_refused(words: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        of(words)
    assert message in str(refused.value)


def test_dense_models_have_no_external_ranks() -> None:
    with pytest.raises(Refused, match="Non-MoE models do not support external data parallel mode"):
        of("-dp 2 -dpn 0", moe=False)


def test_headless_with_one_api_server_was_accepted() -> None:
    assert of("--headless -asc 1 -dp 2 -dpl 1 -dpr 1", "0.11.0").headless
