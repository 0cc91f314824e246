# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.masking import masked, masked_command, masked_proxy, raw

LETTERS = string.ascii_letters + string.digits
SECRETS = st.text(LETTERS + ":/+_.~@%", min_size=1, max_size=20).map(lambda text: f"Q7x{text}x7Q")
PASSWORDS = st.text(LETTERS + ":/+_.~@%!$&()*,;=-", min_size=1, max_size=20).map(lambda text: f"Q7x{text}x7Q")
NAMES = st.sampled_from(
    ["HF_TOKEN", "api_key", "AWS_SECRET_ACCESS_KEY", "MC_REDIS_PASSWORD", "dbPass", "GOOGLE_CREDENTIALS", "x.token.y"]
)
OPTIONS = st.sampled_from(
    ["--api-key", "--token", "--hf-token", "--client-secret", "--ssl-keyfile-password", "-passwd"]
)
AROUND = st.sampled_from(["{}", "a {} b", "vllm serve /m {} --port 8100", "x\n{}\ny", "env A=1 {}"])


def forms(secret: str, name: str, option: str) -> list[str]:
    plain = secret.replace("@", "")
    return [
        f"http://user:{secret}@192.0.2.3:3128",
        f"redis://{secret}@192.0.2.3",
        f"--url=postgresql+asyncpg://user:{secret}@db/x",
        f"{name}={plain}",
        f'export {name}="{plain} {plain}"',
        f"{name} = {plain}",
        f"{option} {plain}",
        f"{option} {plain} {plain}z",
        f"{option}={plain}",
        f"{option} '{plain}' \\\n  {plain}",
        f"--other-key {option} {plain}",
        f"Authorization: Bearer {plain}",
        f"-H 'authorization: basic {plain}'",
        f"bearer {plain}",
        json.dumps({name: plain, "b": 1}),
        json.dumps({name: [plain, f"{plain}z"]}),
        json.dumps(["serve", option, plain, f"{plain}z", "--port"], separators=(",", ":")),
        json.dumps(["serve", option, plain, f"{plain}z", "--port"], indent=1),
        repr(["serve", option, plain, f"{plain}z"]),
    ]


@given(SECRETS, NAMES, OPTIONS, AROUND)
def test_a_secret_in_a_text_never_comes_out(secret: str, name: str, option: str, around: str) -> None:
    for form in forms(secret, name, option):
        text = around.format(form)
        shown = masked(text)
        assert "Q7x" not in shown, text
        assert "***" in shown
        assert masked(shown) == shown
        assert "Q7x" not in raw(f"{text}\n" + "z" * 3000)


@given(st.integers(1900, 2000), SECRETS, NAMES, OPTIONS)
def test_a_secret_that_is_cut_in_two_does_not_come_out(before: int, secret: str, name: str, option: str) -> None:
    for form in forms(secret, name, option):
        shown = raw("." * before + " " + form)
        assert len(shown) <= 2000
        assert "Q7x" not in shown


@given(PASSWORDS, st.sampled_from(["http://u:{}@192.0.2.3:3128", "u:{}@192.0.2.3:3128", "socks5h://{}@192.0.2.3:3128"]))
@example("Q7x/a:b@c/x7Q", "u:{}@192.0.2.3:3128")
def test_a_secret_of_a_proxy_never_comes_out(secret: str, form: str) -> None:
    shown = masked_proxy(form.format(secret))
    assert "Q7x" not in shown
    assert shown.endswith("***@192.0.2.3:3128")


@given(PASSWORDS, PASSWORDS, NAMES, OPTIONS)
def test_a_secret_in_a_command_line_never_comes_out(one: str, other: str, name: str, option: str) -> None:
    spaced = f"{one} {other}"
    for words in (
        [option, spaced, spaced],
        [f"{option}={spaced}"],
        ["env", f"{name}={spaced}", "vllm"],
        ["docker", "run", f"--env={name}={spaced}", "image"],
        ["sh", "-c", f"exec vllm serve {option} {one} {other}"],
        ["curl", "-H", f"Authorization: Bearer {one}", f"https://u:{other}@192.0.2.3/x"],
        ["curl", "--header", "Authorization:", "Bearer", one],
        ["x", "--no-key", option, one],
    ):
        shown = masked_command(words)
        assert "Q7x" not in shown, words
        assert shown.startswith(words[0].partition("=")[0])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("vllm serve --api-key a b --port 8100", "vllm serve --api-key *** *** --port 8100"),
        ("a --api-key=k --port 8100 /models/x", "a --api-key=*** --port 8100 /models/x"),
        ("MC_MASTER=192.0.2.11:50051 HF_TOKEN=x A=b", "MC_MASTER=192.0.2.11:50051 HF_TOKEN=*** A=b"),
        ('{"token": "a", "port": 8100}', '{"token": "***", "port": 8100}'),
        ("the option --token is not known\nnext line", "the option --token *** *** ***\nnext line"),
        ("git@example.net:x, tty@1.service, a@b", "git@example.net:x, tty@1.service, a@b"),
        ("http://192.0.2.3:8100/health\nNPU 0: OK", "http://192.0.2.3:8100/health\nNPU 0: OK"),
        ("  two  blanks\tand\n\n lines ", "  two  blanks\tand\n\n lines "),
        ("", ""),
    ],
)
def test_the_rest_stays(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text", ["a", "=", "a=", "://", "a://", "--key ", "key=", "'", '"', "@", "[", '"a",', "\\", "key "]
)
def test_long_texts_take_no_long_time(text: str) -> None:
    begun = time.monotonic()
    masked(text * 60000)
    assert time.monotonic() - begun < 5
