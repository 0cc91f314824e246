# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same questions to the twin and to the real engine of the sandbox (vLLM 0.32.0 on the CPU).

What the twin says must be what the real one says, as far as the collection or its tests rely on it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import Fleet, Started, ask, build, free_port
from twin import options

ENGINE = Path("/var/cache/mooncake-pd/engine")
MODEL = Path("/var/cache/mooncake-pd/model/tiny")
HOST = "127.0.0.1"
RELEASE = "0.32.0"
# as in inventories/sandbox
SMALL = ["--dtype=float32", "--max-model-len=512", "--max-num-seqs=4", "--max-num-batched-tokens=512"]
SMALL += ["--kv-cache-memory-bytes=64M", "--enforce-eager"]
ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_HOST_IP": HOST,
    "VLLM_NO_USAGE_STATS": "1",
}
KINDS = ("twin", "real")


@dataclass
class Side:
    home: Path
    fleet: Fleet
    process: Started | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def serve(self) -> None:
        self.port = free_port()
        words = ["--served-model-name", "tiny", "--host", HOST, "--port", str(self.port), *SMALL]
        self.process = self.fleet.vllm(self.home, *words, model=str(MODEL), **ENVIRONMENT)

    def run(self, *words: str) -> tuple[int, str]:
        """Code and output of one that does not come up."""
        process = self.fleet.vllm(self.home, *words, model=str(MODEL), **ENVIRONMENT)
        return process.wait(120), process.text


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Both, serving. The real one is started once for the whole file."""
    folder = tmp_path_factory.mktemp("contract")
    twin = build(folder / "home", "0.23.0", "0.3.11.post1", "A3", "--vllm", RELEASE)
    homes = {"twin": twin, "real": ENGINE}
    found = {}
    for kind, home in homes.items():
        (folder / kind).mkdir()
        found[kind] = Side(home, Fleet(folder / kind))
        found[kind].serve()
    try:
        for side in found.values():
            assert side.process
            side.process.wait_healthy(side.url, 300)
        yield found
    finally:
        for side in found.values():
            side.fleet.stop()


def shape(value: Any) -> Any:
    """Keys and types of an answer; null may stand for what the other has."""
    if isinstance(value, dict):
        return {key: shape(its) for key, its in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def both(sides: dict[str, Side], path: str, body: Any = None, **more: Any) -> list[Any]:
    return [ask(sides[kind].url + path, body, **more) for kind in KINDS]


def same(answers: list[Any], *headers: str) -> None:
    twin, real = answers
    assert twin.status == real.status
    for header in headers:
        assert twin.headers.get(header) == real.headers.get(header), header


COMPLETION = {"model": "tiny", "prompt": "hello world", "max_tokens": 4, "temperature": 0, "ignore_eos": True}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "ignore_eos": True}


@pytest.mark.parametrize("path", ["/health", "/ping", "/nope", "/v1/completions"])
def test_answers_without_content(sides: dict[str, Side], path: str) -> None:
    answers = both(sides, path)
    same(answers, "content-type", "allow", "content-length")
    assert answers[0].body == answers[1].body


def test_version_and_models(sides: dict[str, Side]) -> None:
    twin, real = both(sides, "/version")
    assert twin.json == real.json == {"version": RELEASE}
    twin, real = both(sides, "/v1/models")
    assert shape(twin.json) == shape(real.json)
    for key in ("id", "root", "max_model_len", "object"):
        assert twin.json["data"][0][key] == real.json["data"][0][key]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", COMPLETION),
        ("/v1/completions", {**COMPLETION, "prompt": ["hello world", "x y"]}),
        ("/v1/completions", {**COMPLETION, "prompt": [5, 6, 7]}),
        ("/v1/chat/completions", CHAT),
    ],
)
def test_whole_answers(sides: dict[str, Side], path: str, body: dict[str, Any]) -> None:
    answers = both(sides, path, body, headers={"X-Request-Id": "abc"})
    same(answers, "content-type")
    twin, real = (answer.json for answer in answers)
    assert shape(twin) == shape(real)
    assert twin["id"] == real["id"]
    for key in ("object", "model"):
        assert twin[key] == real[key]
    assert [c["finish_reason"] for c in twin["choices"]] == [c["finish_reason"] for c in real["choices"]]
    assert twin["usage"]["completion_tokens"] == real["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {**COMPLETION, "stream_options": {"include_usage": True}}),
        ("/v1/completions", COMPLETION),
        ("/v1/chat/completions", CHAT),
    ],
)
def test_streams(sides: dict[str, Side], path: str, body: dict[str, Any]) -> None:
    answers = both(sides, path, {**body, "stream": True})
    same(answers, "content-type", "transfer-encoding")
    twin, real = (answer.events for answer in answers)
    assert twin[-1] == real[-1] == "[DONE]"
    # the real one may put several tokens into a chunk, so only the ends can be compared
    for at in (0, -2) if "stream_options" not in body else (0, -3, -2):
        mine_keys, its_keys = json.loads(twin[at]), json.loads(real[at])
        # the real one says more in a chat's first chunk and in the last one
        assert set(mine_keys) <= set(its_keys)
        for ours, theirs in zip(mine_keys["choices"], its_keys["choices"], strict=True):
            assert set(ours) <= set(theirs)
            if at != 0:
                assert ours["finish_reason"] == theirs["finish_reason"]
            assert set(ours.get("delta", {})) == set(theirs.get("delta", {}))


@pytest.mark.parametrize(
    ("path", "body", "exact"),
    [
        ("/v1/completions", {**COMPLETION, "model": "nope"}, True),
        ("/v1/chat/completions", {**CHAT, "model": "nope"}, True),
        ("/v1/completions", {**COMPLETION, "max_tokens": 9999}, True),
        ("/v1/completions", b'{"model":', False),
        ("/v1/completions", {"model": "tiny"}, False),
        ("/v1/chat/completions", {"model": "tiny"}, False),
    ],
)
def test_refusals(sides: dict[str, Side], path: str, body: Any, exact: bool) -> None:
    twin, real = both(sides, path, body)
    same([twin, real], "content-type")
    assert shape(twin.json) == shape(real.json)
    for key in ("code", "type"):
        assert twin.json["error"][key] == real.json["error"][key]
    if exact:
        assert twin.json == real.json


def metrics(text: str) -> dict[str, tuple[str, set[frozenset[str]]]]:
    """name -> (type, sets of labels)"""
    kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    found: dict[str, tuple[str, set[frozenset[str]]]] = {}
    for line in text.splitlines():
        name, brace, rest = line.partition("{")
        if brace and name in kinds:
            labels = frozenset(part.partition("=")[0] for part in rest.partition("}")[0].split(","))
            found.setdefault(name, (kinds[name], set()))[1].add(labels)
    return found


def test_metrics(sides: dict[str, Side]) -> None:
    twin, real = (metrics(answer.text) for answer in both(sides, "/metrics"))
    assert len(twin) >= 12
    for name, its in twin.items():
        assert its == real.get(name), name
    texts = [answer.text for answer in both(sides, "/metrics")]
    for label in ("source", "finished_reason"):
        values = [{part.partition('"')[0] for part in text.split(f'{label}="')[1:]} for text in texts]
        assert values[0] <= values[1]


def test_one_line_says_ready(sides: dict[str, Side]) -> None:
    for side in sides.values():
        assert side.process
        assert side.process.said("Application startup complete.") == 1
        assert side.process.said("init engine (profile, create kv cache, warmup model) took") == 1


def test_a_taken_api_port(sides: dict[str, Side]) -> None:
    for side in sides.values():
        code, text = side.run("--host", HOST, "--port", str(side.port), *SMALL)
        assert code == 1
        assert "OSError: [Errno 98] Address already in use" in text


@pytest.mark.parametrize(
    ("words", "code", "texts"),
    [
        (["--no-such-option"], 2, ["vllm: error: unrecognized arguments: --no-such-option"]),
        (
            ["--headless", "--api-server-count", "1"],
            1,
            ["ValueError: --api-server-count=1 cannot be used with --headless (no API servers are started in headless"],
        ),
        (
            ["--kv-transfer-config", '{"kv_connector":"X","kv_role":"kv_producer","delayed_free":true}'],
            2,
            [
                "vllm serve: error: argument --kv-transfer-config: 1 validation error for KVTransferConfig\n"
                "delayed_free\n  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=True, "
            ],
        ),
        (
            ["--kv-transfer-config", '{"kv_connector":"NoSuch","kv_role":"kv_producer"}', *SMALL],
            1,
            ["ValidationError: 1 validation error for VllmConfig\n  Value error, Unsupported connector type: NoSuch "],
        ),
    ],
)
def test_refused_starts(sides: dict[str, Side], words: list[str], code: int, texts: list[str]) -> None:
    for side in sides.values():
        ended, text = side.run("--host", HOST, "--port", str(free_port()), *words)
        assert ended == code, text[-2000:]
        for wanted in texts:
            assert wanted in text


ASK_REAL = """
import json, sys
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = FlexibleArgumentParser()
serve = ServeSubcommand().subparser_init(parser.add_subparsers())
accepted = []
for words in json.load(sys.stdin):
    try:
        parser.parse_args(["serve", *words])
        accepted.append(True)
    except SystemExit:
        accepted.append(False)
names = sorted({name for action in serve._actions for name in action.option_strings})
print("ANSWER" + json.dumps({"names": names, "accepted": accepted}))
"""
SAMPLES = {"int": "1", "float": "0.5", "str": "x", "words": "x", "memory": "64", "json": "{}"}
# options that take one of some words
CHOICES = {
    "--distributed-executor-backend": "mp",
    "--data-parallel-backend": "mp",
    "--uvicorn-log-level": "info",
    "--dtype": "float32",
    "--mm-encoder-tp-mode": "data",
    "--runner": "generate",
    "--safetensors-load-strategy": "lazy",
    "--mamba-ssm-cache-dtype": "auto",
    "--tokenizer-mode": "auto",
    "--gpu-memory-utilization": "0.5",
    "--model-loader-extra-config": "{}",
    "--kv-transfer-config": '{"kv_connector":"X","kv_role":"kv_both"}',
    "--speculative-config": '{"method":"ngram","num_speculative_tokens":1}',
}


def test_the_real_one_has_every_option() -> None:
    """Also those that the twin holds for dropped: it must not have them."""
    known = options.known(RELEASE)
    questions = []
    for option in known:
        name = option.names[0]
        value = [] if option.kind in ("flag", "bool") else [CHOICES.get(name) or SAMPLES[option.kind]]
        questions.append([*(() if name == "--model" else ("m",)), name, *value])
    questions += [["m", "--no-" + o.names[0][2:]] for o in known if o.kind == "bool"]
    done = subprocess.run(
        [str(ENGINE / "bin/python"), "-c", ASK_REAL],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.partition("ANSWER")[2])
    names = set(answer["names"])
    missing = [name for option in known for name in option.names if name not in names]
    assert missing == []
    refused = [words for words, accepted in zip(questions, answer["accepted"], strict=True) if not accepted]
    assert refused == [], done.stderr[-2000:]
    dropped = {name for option in options.TABLE if option.dropped for name in option.names}
    assert dropped & names == set()
    assert {"--swap-space", "--task"} == dropped


def test_z_sigterm_ends_both_alike(sides: dict[str, Side]) -> None:
    """Last, since nothing serves any more afterwards."""
    for side in sides.values():
        assert side.process
        assert side.process.terminate(60) == 0
        assert side.process.said("Application shutdown complete.") == 1
