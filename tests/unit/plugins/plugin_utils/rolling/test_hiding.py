# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in what is kept."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling import hiding
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.hiding import (
    hidden,
    hidden_tree,
    hidden_yaml,
    is_secret,
)


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "env.HF_TOKEN", "args.--api-key", "apiKey", "router_api_keys", "ansible_become_pass"),
        *("ansible_password", "ansible_ssh_passphrase", "AWS_SECRET_ACCESS_KEY", "credentials", "Authorization"),
        *("access-tokens", "db_passwd", "mypassword"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("args.--max-num-batched-tokens", "num_speculative_tokens", "--return-tokenizer", "monkey", "keyboard"),
        *("args.--block-size", "env.PYTHONHASHSEED", "bypass_proxy", "args.--max-new-tokens"),
    ],
)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://me:s3cret@proxy:3128", "http://***@proxy:3128"),
        ("--hf-token=s3cret", "--hf-token=***"),
        ('{"api_key": "s3cret", "size": 3}', '{"api_key": "***", "size": 3}'),
        ("expandable_segments:True", "expandable_segments:True"),
        ("/usr/lib:/usr/local/lib", "/usr/lib:/usr/local/lib"),
    ],
)
def test_secrets_in_the_midst_of_a_value(text: str, kept: str) -> None:
    assert hidden("env.ANY", text) == kept


def test_a_tree() -> None:
    given = {
        "text": "hello",
        "login": {"password": "tiger", "port": 1},
        "api_keys": ["lion", "puma"],
        "ok": True,
        "no": None,
    }
    kept = hidden_tree(given)
    assert not any(secret in str(kept) for secret in ("tiger", "lion", "puma"))
    assert (kept["text"], kept["login"]["port"], kept["ok"], kept["no"]) == ("hello", 1, True, None)


TEXT = """\
# a comment stays (\u00e9\u4e2d\U0001f600), but not password: hunter2
name: lab   # and this one
hosts:
  p1: {address: 192.0.2.1, vars: {ansible_user: ops, ansible_password: "tiger lily"}}
  p2:
    vars:
      ansible_become_pass: &pass lion
      ansible_ssh_pass: *pass
      harmless: &later panther
      secret: *later
      become_password: &first ocicat
      innocent: *first
      private_key: |
        -----BEGIN
        jaguar
        -----END
      vaulted_password: !vault |
        $ANSIBLE_VAULT;1.1;AES256
        3132
engine_args: [--hf-token, leopard, --max-num-batched-tokens, "512", --other-token=cheetah]
engine_environment: {HF_TOKEN: 'ocelot', http_proxy: "http://me:lynx@proxy:1", OMP_NUM_THREADS: "1"}
api_keys:
  - caracal
"""
SECRETS = ("hunter2", "tiger", "lion", "panther", "jaguar", "leopard", "cheetah", "ocelot", "ocicat", "lynx", "caracal")


def test_a_topology_keeps_everything_but_its_secrets() -> None:
    kept = hidden_yaml(TEXT)
    assert [secret for secret in SECRETS if secret in kept] == []
    assert "$ANSIBLE_VAULT;1.1;AES256\n        3132" in kept
    assert "# a comment stays" in kept
    assert "ansible_user: ops" in kept
    assert '--max-num-batched-tokens, "512"' in kept
    assert 'OMP_NUM_THREADS: "1"' in kept
    assert yaml.compose(kept)
    assert len(kept.splitlines()) == len(TEXT.splitlines()) - 3  # the three lines of the key are one
    assert hidden_yaml(kept) == kept


def test_another_loader_finds_the_same_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one in C may be missing, and counts characters by itself."""
    kept = hidden_yaml(TEXT)
    monkeypatch.setattr(hiding, "_LOADER", yaml.SafeLoader)
    assert hidden_yaml(TEXT) == kept


def test_an_encrypted_file_stays_as_it_is_and_a_broken_one_is_not_kept() -> None:
    assert hidden_yaml("$ANSIBLE_VAULT;1.1;AES256\n3132\n") == "$ANSIBLE_VAULT;1.1;AES256\n3132\n"
    assert "tiger" not in hidden_yaml("{password: tiger")
