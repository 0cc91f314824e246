# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: capacity_report
short_description: Tell how much KV the instances of a plan keep, and how much of it a pool holds
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Puts together the C(config.json) of the model, and the sizes and options of the instances in the plan, and shows as
    a table what a token and a sequence take, how they are spread over workers, how many tokens and sequences fit into
    the KV pool below its watermark, and for how long they stay there.
  - What cannot be told is V(UNKNOWN) with the reason. Nothing is guessed.
  - The pool is the sum of the segments of all workers that the plan connects to a store of Mooncake, with
    C(MOONCAKE_GLOBAL_SEGMENT_SIZE) of their environment. Where the plan does not say it, O(segment_bytes) or
    O(pool_bytes) does.
  - Runs on the controller only and contacts no host.
options:
  topology:
    description: The topology file. By default the one that the inventory was made from.
    type: path
  config:
    description: C(config.json) of the model on the controller. It wins over O(content).
    type: path
  content:
    description: C(config.json) in base64, as M(ansible.builtin.slurp) returns it.
    type: str
  origin:
    description: What O(content) is called in messages.
    type: str
  problem:
    description: Why there is no O(content), for the message.
    type: str
  length:
    description: Tokens of a typical sequence.
    type: int
  tokens_per_second:
    description: Tokens a second that were in no cache before, of the whole cluster.
    type: float
  requests_per_second:
    description: Requests a second, each with O(length) new tokens. It excludes O(tokens_per_second).
    type: float
  pool_bytes:
    description: Size of the whole pool, as a number or as V(5TB). Steps are 1024.
    type: str
  segment_bytes:
    description:
      - Size of the segment of each worker (C(global_segment_size)), as a number or as V(40GB).
      - It excludes O(pool_bytes).
    type: str
  contributors:
    description:
      - Instances whose workers bring segments. By default those that the plan connects to a store, and all with
        O(segment_bytes) where it connects none.
    type: list
    elements: str
  watermark:
    description:
      - Share of the pool from which on the master evicts.
      - By default what the plan starts the master with, else the default of the planned release of Mooncake.
    type: float
  eviction_ratio:
    description: Share that one pass evicts. By default what the plan starts the master with, else 0.05.
    type: float
  kv_cache_dtype:
    description: The format of the KV where a quantized checkpoint decides it. By default C(--kv-cache-dtype) of the
      instances.
    type: str
  dest:
    description: Folder for C(capacity.json), made when it is missing. Without it nothing is written. Refused is a
      folder that C(-i) names, and all in it.
    type: path
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
notes:
  - Run it once, on any host of the plan; it says the same for each.
  - >-
    C(capacity.json) has the keys C(schema) (now 1; it goes up when a key is renamed, removed or means something else),
    C(cluster), C(source) (of the config), C(model), C(kv_cache), C(token), C(sequence), C(instances), C(pool) and
    C(notes). See P(mooncake.pd.capacity#filter) for what they hold.
seealso:
  - plugin: mooncake.pd.capacity
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Tell the capacity
  hosts: engine
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Read the config of the model
      ansible.builtin.slurp:
        src: "{{ pd_cluster.model.path }}/config.json"
      register: model_config
      run_once: true

    - name: Show what fits when each worker brings 40 GB, and for how long it stays there
      mooncake.pd.capacity_report:
        content: "{{ model_config.content }}"
        length: 32768
        segment_bytes: 40GB
        requests_per_second: 2
      run_once: true
"""

RETURN = r"""
capacity:
  description: What C(capacity.json) holds. Figures are dictionaries with C(value), C(unit) and C(unknown).
  returned: success
  type: dict
  contains:
    token:
      description: Figure, bytes of one token, each KV head once.
      type: dict
      sample: {value: 327680, unit: bytes/token, unknown: null}
    sequence:
      description: C(length), and the figure C(bytes) of such a sequence in an engine.
      type: dict
    instances:
      description: >-
        A list of C({name, kind, max_length, shape, memory, tokens}). C(memory) is what the plan gives each worker for
        KV, and C(tokens) what fits into it in all data-parallel ranks, both figures.
      type: list
      elements: dict
    pool:
      description: C(segments), C(watermark), figures and C(advice).
      type: dict
table:
  description: The table as it was shown.
  returned: success
  type: str
files:
  description: What was written, or would be in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Absolute path of the file.
      type: str
    changed:
      description: Whether its content is another one than before.
      type: bool
"""
