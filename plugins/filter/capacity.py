# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much KV a model keeps, from its config.json."""

from __future__ import annotations

DOCUMENTATION = r"""
name: capacity
short_description: How much KV cache a model needs, and how much of it a pool holds
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Tells from the C(config.json) of a model how many bytes of KV a token and a sequence take, how tensor, pipeline and
    context parallelism spread them over workers, how many tokens fit into a KV pool, and for how long they stay there.
  - Knows multi-head, grouped-query and multi-query attention, latent attention (MLA), windows, and layers that keep a
    state, as far as the config tells.
  - Every figure is a dictionary with C(value), C(unit) and C(unknown). What does not follow from the config is not
    guessed. Its C(value) is none then, and C(unknown) says why.
  - Padding, blocks that are not full and the fragmentation of the pool's memory are not counted.
positional: _input
options:
  _input:
    description: The content of C(config.json), for instance of P(ansible.builtin.from_json#filter).
    type: dict
    required: true
  dtype:
    description: C(--dtype) of the engine. With V(auto) it is what the config says, and a checkpoint of float32 is
      served in 16 bits.
    type: str
    choices: [auto, float32, float, float16, half, bfloat16]
    default: auto
  kv_cache_dtype:
    description:
      - C(--kv-cache-dtype) of the engine, such as V(fp8) or V(int8).
      - Needed when a quantized checkpoint decides it. Formats that pack scales beside the values cannot be told.
    type: str
    default: auto
  tp:
    description: Tensor-parallel size. KV heads are copied when there are fewer of them, and a latent always is.
    type: int
    default: 1
  pp:
    description: Pipeline-parallel size.
    type: int
    default: 1
  pcp:
    description: Prefill context-parallel size.
    type: int
    default: 1
  dcp:
    description: Decode context-parallel size. It shares the copies that O(tp) makes out to different tokens.
    type: int
    default: 1
  dp:
    description: Data-parallel size. Every rank has sequences of its own.
    type: int
    default: 1
  length:
    description: Tokens of a sequence.
    type: int
  pool_bytes:
    description: Size of the KV pool, which is the sum of the segments of all processes, as a number or as V(5TB). Steps
      are 1024.
    type: str
  watermark:
    description:
      - Share of the pool from which on the master evicts (C(--eviction_high_watermark_ratio)).
      - By default that of O(mooncake_version).
    type: float
  eviction_ratio:
    description: Share that one pass evicts (C(--eviction_ratio)), 0.05 by default.
    type: float
  mooncake_version:
    description: Release of Mooncake, for its default watermark, which is 0.95 before 0.3.12 and 0.90 since.
    type: str
  tokens_per_second:
    description: Tokens a second that were in no cache before.
    type: float
  requests_per_second:
    description: Requests a second, each with O(length) new tokens. It excludes O(tokens_per_second).
    type: float
seealso:
  - module: mooncake.pd.capacity_report
"""

EXAMPLES = r"""
# 32,768 tokens of a model with 80 layers and 8 KV heads of 128 are 10 GiB, of which a pool of 5 TiB holds 460 at 0.90.
- name: Tell how many sequences fit
  ansible.builtin.debug:
    msg: "{{ found.pool.sequences.value }} sequences of {{ found.sequence.bytes.value | human_readable }}"
  vars:
    config: "{{ lookup('ansible.builtin.file', 'config.json') | from_json }}"
    found: "{{ config | mooncake.pd.capacity(length=32768, pool_bytes='5TB', watermark=0.9) }}"

- name: Make sure that what was written is kept for ten minutes
  ansible.builtin.assert:
    that: found.pool.kept_least.value is not none and found.pool.kept_least.value > 600
  vars:
    found: "{{ config | mooncake.pd.capacity(pool_bytes='5TB', mooncake_version='0.3.13', tokens_per_second=20000) }}"
"""

RETURN = r"""
_value:
  description: What was found out. Figures are dictionaries with C(value), C(unit) and C(unknown).
  type: dict
  contains:
    model:
      description: What was read, with C(attention), C(layers) of each kind, C(windows), C(kv_heads) and C(unknown).
      type: dict
    kv_cache:
      description: The format, and C(element), the bytes of one number.
      type: dict
    token:
      description: Figure, bytes of one token, each KV head once.
      type: dict
      sample: {value: 327680, unit: bytes/token, unknown: null}
    sequence:
      description: C(length), and C(bytes) of such a sequence in an engine.
      type: dict
    shape:
      description: >-
        The sizes, C(workers), KV C(heads) of a worker, C(copies) of a token's KV within a data-parallel rank, and the
        figures C(worker) (bytes of a token in the fullest worker), C(stages) (in a worker of each pipeline stage) and
        C(rank) (in all workers of a data-parallel rank).
      type: dict
    pool:
      description: >-
        C(watermark), and the figures C(bytes), C(usable) (up to the watermark), C(tokens) and C(sequences) that fit,
        C(new_tokens) and C(new_bytes) a second, C(kept_least) and C(kept_most), the seconds until what is read no more
        is evicted. C(advice) is a list of C({about, message, fix}).
      type: dict
    notes:
      description: What to know beside the figures.
      type: list
      elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.estimate import estimate
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import CapacityError


def capacity(
    config: Any,
    *,
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    tp: int = 1,
    pp: int = 1,
    pcp: int = 1,
    dcp: int = 1,
    dp: int = 1,
    length: int | None = None,
    pool_bytes: str | int | None = None,
    watermark: float | None = None,
    eviction_ratio: float | None = None,
    mooncake_version: str | None = None,
    tokens_per_second: float | None = None,
    requests_per_second: float | None = None,
) -> dict[str, Any]:
    options = {name: value for name, value in locals().items() if name != "config"}
    try:
        return estimate(config, options)
    except CapacityError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"capacity": capacity}
