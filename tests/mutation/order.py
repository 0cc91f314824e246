# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plugin of pytest for run.py: first the tests that know most of the changed module, and the same run every time."""

from __future__ import annotations

import os
import resource

import hypothesis
import pytest

# a change that makes the planner loop forever or fill the memory is noticed as well
CPU_SECONDS, MEMORY = 240, 4 * 2**30


def pytest_configure(config: pytest.Config) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # examples that differ from run to run, and deadlines on a busy machine, would decide by chance
    hypothesis.settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=30,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # the smallest example interests nobody
    )
    hypothesis.settings.load_profile("mutation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    module = os.environ["MUTATED_MODULE"]

    def rank(item: pytest.Item) -> int:
        drawn = hasattr(getattr(item, "obj", None), "hypothesis")
        own = item.path.stem in FIRST.get(module, (f"test_{module}",))
        return 2 * drawn + (not own)

    items.sort(key=rank)


# module of the planner -> tests to run first, where the name does not say it
FIRST = {
    **dict.fromkeys(("additional", "extra", "serve", "spans", "transfer"), ("test_options",)),
    **dict.fromkeys(("table", "together", "values"), ("test_variables",)),
    "choices": ("test_choices", "test_parallel"),
    "connector": ("test_rules", "test_catalogue", "test_plan"),
    "connectors": ("test_engines", "test_parallel", "test_rules"),
    "devices": ("test_rules", "test_catalogue"),
    "knowledge": ("test_rules", "test_catalogue"),
    "layout": ("test_parallel", "test_engines"),
    "master": ("test_services",),
    "mooncake": ("test_choices", "test_engines", "test_ports"),
    "placement": ("test_rules", "test_catalogue", "test_plan"),
    "ports": ("test_ports", "test_rules", "test_catalogue"),
    "router": ("test_services", "test_rules"),
    "settings": ("test_rules", "test_catalogue"),
    "shapes": ("test_rules", "test_catalogue"),
    "topology": ("test_topology", "test_schema"),
    "vllm": ("test_engines", "test_parallel", "test_rules"),
    "vllm_ascend": ("test_engines", "test_parallel", "test_choices"),
    "vllm_cpu": ("test_engines",),
}
