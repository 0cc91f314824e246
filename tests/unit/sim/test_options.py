# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `vllm serve` takes."""

from __future__ import annotations

import json

import pytest
from twin import options
from twin.state import since, version_key

GUIDE = [
    *("/path_to_weight", "--host", "0.0.0.0", "--port", "7100"),
    *("--data-parallel-size", "2", "--data-parallel-rank", "1"),
    *("--data-parallel-address", "192.0.2.1", "--data-parallel-rpc-port", "12321"),
    *("--tensor-parallel-size", "8", "--enable-expert-parallel", "--seed", "1024", "--served-model-name", "ds_r1"),
    *("--max-model-len", "40000", "--max-num-batched-tokens", "16384", "--max-num-seqs", "8", "--enforce-eager"),
    *("--trust-remote-code", "--gpu-memory-utilization", "0.9", "--quantization", "ascend"),
    *("--no-enable-prefix-caching", "--distributed-executor-backend", "mp"),
]


def test_the_guide_of_0_23() -> None:
    more = ["--speculative-config", '{"num_speculative_tokens":1,"method":"deepseek_mtp"}', "--async-scheduling"]
    more += ["--additional-config", '{"enable_shared_expert_dp":true}', "--kv-transfer-config", "{}"]
    args = options.parse([*GUIDE, *more], "0.23.0")
    assert (args.model_tag, args.port, args.data_parallel_rank, args.tensor_parallel_size) == (GUIDE[0], 7100, 1, 8)
    assert args.served_model_name == ["ds_r1"]
    assert args.enable_prefix_caching is False
    assert args.additional_config == {"enable_shared_expert_dp": True}
    assert (args.gpu_memory_utilization, args.max_model_len) == (0.9, 40000)


def test_the_guide_of_0_11() -> None:
    words = [
        "m",
        "--headless",
        "--data-parallel-start-rank",
        "16",
        "-asc=1",
        "--max-num_seqs",
        "4",
        "-tp",
        "2",
        "-dpl",
        "16",
    ]
    args = options.parse(words, "0.11.0")
    assert args.headless
    assert (args.data_parallel_start_rank, args.max_num_seqs, args.data_parallel_size_local) == (16, 4, 16)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m", "--no-such"], "vllm: error: unrecognized arguments: --no-such"),
        (["m", "--delayed-free", "true"], "unrecognized arguments: --delayed-free true"),
        (["m", "--model", "n"], "unrecognized arguments: m"),
        (["m", "--port"], "vllm serve: error: argument --port: expected one argument"),
        (["m", "--port", "80a"], "argument --port: invalid int value: '80a'"),
        (["m", "--additional-config", "{a:1}"], "argument --additional-config: Value {a:1} cannot be converted"),
        (["m", "--max-model-len", "32x"], "argument --max-model-len: invalid int value: '32x'"),
    ],
)
def test_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options.parse(words, "0.23.0")
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_options_have_their_releases(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["m", "--shutdown-timeout", "30"]
    assert options.parse(words, "0.18.0").shutdown_timeout == 30
    with pytest.raises(SystemExit):
        options.parse(words, "0.17.0")
    assert options.parse(["m", "--swap-space", "4"], "0.11.0").swap_space == 4
    with pytest.raises(SystemExit):
        options.parse(["m", "--swap-space", "4"], "0.23.0")
    capsys.readouterr()


def test_sizes_with_units() -> None:
    args = options.parse(["m", "--max-model-len", "32K", "--max-num-batched-tokens=8k"], "0.23.0")
    assert (args.max_model_len, args.max_num_batched_tokens) == (32768, 8000)


def test_every_json_option_takes_json() -> None:
    for option in options.known("0.23.0"):
        if option.kind == "json":
            args = options.parse(["m", option.names[0], json.dumps({"a": [1]})], "0.23.0")
            assert vars(args)[option.names[0].strip("-").replace("-", "_")] == {"a": [1]}


def test_releases_are_ordered() -> None:
    names = ["0.9.1", "0.10.1rc1", "0.11.0rc0", "0.11.0rc3", "0.11.0", "0.11.0.post1", "0.23.0rc1", "0.23.0"]
    assert sorted(names, key=version_key) == names
    assert since("0.3.7.post2", "0.3.7")
    assert not since("0.3.7.post2", "0.3.8")
    with pytest.raises(ValueError, match="no release"):
        version_key("main")
