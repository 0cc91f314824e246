# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes that the engine and the connector take."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import Connector
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines import vllm
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.serve import speculative_tokens
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import Report
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, Instance, Topology

# Options of the engine on which prefill and decode have to agree: what one writes the other reads as it stands.
_EQUAL = ("--block-size", "--kv-cache-dtype", "--dtype", "--quantization")
_SIZES = ("tp", "dp", "pp", "pcp", "dcp")


def check_shapes(topology: Topology, connector: Connector, report: Report) -> None:
    ascend = connector.engine == "vllm_ascend"
    for instance in topology.instances:
        if ascend:
            _check_instance(topology, instance, connector, report)
        else:
            _check_single(instance, report)
        if connector.hybrid and instance.kv_load_failure_policy == "recompute":
            report.error(
                "recompute-hybrid",
                f"{instance.where}.kv_load_failure_policy",
                "hybrid models do not support recompute, the engine ends with an AssertionError.",
                "use fail.",
            )
    if ascend:
        for side in (topology.prefill, topology.decode):
            _check_alike(side, report)
        _check_features(topology, connector, report)
    for prefill in topology.prefill[:1]:
        for decode in topology.decode[: 1 if ascend else None]:
            _check_tp(prefill, decode, ascend, report)
            if ascend:
                _check_dcp(topology, prefill, decode, report)
        for other in (*topology.prefill[1:], *topology.decode):
            _check_equal_options(topology, prefill, other, report)
            _check_speculation(topology, prefill, other, report)
    _check_speculating_prefill(topology, report)


def _check_single(instance: Instance, report: Report) -> None:
    """vllm_cpu: one process on one host."""
    for size in ("dp", "pp", "pcp", "dcp"):
        if getattr(instance, size) > 1:
            report.error(
                "shape-single",
                f"{instance.where}.{size}",
                "an instance of vllm_cpu is one process.",
                f"set {size} to 1 and add instances instead.",
            )
    if len(instance.hosts) > 1:
        report.error(
            "shape-single",
            f"{instance.where}.hosts",
            "an instance of vllm_cpu is one process on one host.",
            "name one host and add instances instead.",
        )


def _check_instance(topology: Topology, instance: Instance, connector: Connector, report: Report) -> None:
    places = len(instance.places)
    if places > 1 and instance.dp % places:
        report.error(
            "shape-hosts",
            f"{instance.where}.dp",
            f"dp {instance.dp} cannot be dealt out evenly to {places} hosts, and the plan has no rank that spans "
            "hosts (--nnodes).",
            f"choose a multiple of {places}, or other hosts.",
        )
    if instance.kind == DECODE:
        for size, upstream in (
            ("pp", "decode pp size must be 1"),
            ("pcp", "Prefill context parallel is not support on decoder nodes"),
        ):
            if getattr(instance, size) > 1:
                report.error(
                    "shape-decode",
                    f"{instance.where}.{size}",
                    f'a decode instance has {size} 1, the engine ends with "{upstream}".',
                    f"remove {size}; it is for prefill.",
                )
    if instance.pp > 1 and instance.pcp > 1:
        report.error(
            "shape-pp-pcp",
            f"{instance.where}.pcp",
            'the engine ends with "pp and pcp cannot open in same time".',
            "use one of the two.",
        )
    if instance.pp > 1 and connector.transfer == "push":
        report.error(
            "shape-pp-push",
            f"{instance.where}.pp",
            f"{connector.name} sends layer by layer and knows no pipeline stages.",
            "set pp to 1, or use MooncakeConnectorV1.",
        )
    elif instance.kind == connector.binds:
        counted = connector.numbering(topology.engine.version).counts
        for size in ("pp", "pcp"):
            if getattr(instance, size) > 1 and size not in counted:
                report.error(
                    "shape-uncounted",
                    f"{instance.where}.{size}",
                    f"{connector.name} of vllm-ascend {topology.engine.version} does not count {size} in its ports, so "
                    "several workers would listen on the same one (vllm-ascend#4244).",
                    f"set {size} to 1, or use a later release.",
                )
    if instance.tp % instance.dcp:
        report.error(
            "shape-dcp",
            f"{instance.where}.dcp",
            f"dcp {instance.dcp} does not divide tp {instance.tp}, whose ranks it reuses.",
            "choose a divisor of tp.",
        )


def _check_alike(side: tuple[Instance, ...], report: Report) -> None:
    for instance in side[1:]:
        different = [size for size in _SIZES if getattr(instance, size) != getattr(side[0], size)]
        if different:
            report.error(
                "shape-differs",
                instance.where,
                f"{_shape(instance, different)} is not {_shape(side[0], different)} of {side[0].where}: peers are told "
                f"one shape for every {instance.kind}, and one with another does not start.",
                f"give all {instance.kind} instances the same sizes.",
            )


def _shape(instance: Instance, sizes: list[str]) -> str:
    return " ".join(f"{size} {getattr(instance, size)}" for size in sizes)


def _check_tp(prefill: Instance, decode: Instance, ascend: bool, report: Report) -> None:
    if prefill.tp % decode.tp == 0 or (not ascend and decode.tp % prefill.tp == 0):
        return
    report.error(
        "shape-tp",
        f"{decode.where}.tp",
        f"tp {decode.tp} does not fit tp {prefill.tp} of {prefill.where}: KV heads cannot be dealt out evenly, and the "
        "engine refuses the start or the first transfer.",
        "choose a decode tp that divides the prefill tp." if ascend else "choose sizes of which one divides the other.",
    )


def _check_dcp(topology: Topology, prefill: Instance, decode: Instance, report: Report) -> None:
    if "sparse" in topology.model.features and (prefill.dcp > 1) != (decode.dcp > 1):
        report.error(
            "shape-dcp-sides",
            f"{decode.where}.dcp",
            "models with sparse attention use decode context parallelism on both sides or on neither "
            "(release notes of vllm-ascend 0.23.0).",
            "set dcp on both sides, or on neither.",
        )


def _check_features(topology: Topology, connector: Connector, report: Report) -> None:
    features = topology.model.features
    if {"dense", "moe"} <= set(features):
        report.error(
            "features-contradict",
            "model.features",
            "a model is dense or a mixture of experts, not both.",
            "remove the one that it is not.",
        )
    for instance in topology.instances:
        if instance.dp == 1 or "moe" in features:
            continue
        if "dense" in features:
            report.error(
                "dense-dp",
                f"{instance.where}.dp",
                "a dense model has no data-parallel group: vLLM makes every rank an instance of its own, which then "
                'ends with "conflicting data parallel size" and takes the same kv ports (vllm-ascend#8344, #8345).',
                "set dp to 1 and add instances instead.",
            )
        elif "--enable-expert-parallel" not in vllm.options(vllm.arguments(topology, instance)):
            report.warning(
                "dense-dp-unsure",
                f"{instance.where}.dp",
                "only a mixture of experts can have dp above 1, and nothing says that the model is one "
                "(vllm-ascend#8344, #8345).",
                "say model.features: [moe], or set dp to 1 and add instances instead.",
            )
    if "c8" in features and "mla" not in features and connector.transfer == "pull":
        report.error(
            "c8-pull",
            "connector.name",
            'the engine ends with "MooncakeConnector does not support C8 KV cache quantization on GQA models".',
            "use MooncakeLayerwiseConnector, or say model.features: [mla] when the model has MLA.",
        )
    if "hybrid" in features:
        for instance in topology.instances:
            if instance.kv_load_failure_policy == "recompute" and not connector.hybrid:
                report.error(
                    "recompute-hybrid",
                    f"{instance.where}.kv_load_failure_policy",
                    "hybrid models do not support recompute, the engine ends with an AssertionError.",
                    "use fail.",
                )


def _check_equal_options(topology: Topology, first: Instance, other: Instance, report: Report) -> None:
    given, here = (vllm.options(vllm.arguments(topology, instance)) for instance in (first, other))
    for name in _EQUAL:
        if given.get(name) != here.get(name):
            report.warning(
                "option-differs",
                f"{other.where}.args",
                f"{name} is {here.get(name, 'not given')} here and {given.get(name, 'not given')} for {first.where}: "
                "one reads the KV of the other as it stands.",
                f"give {name} once, in engine_args.",
            )


def _check_speculation(topology: Topology, first: Instance, other: Instance, report: Report) -> None:
    if "hybrid" not in topology.model.features:
        return
    given, here = (speculative_tokens(vllm.arguments(topology, instance)) for instance in (first, other))
    if given != here:
        report.warning(
            "speculation-differs",
            f"{other.where}.args",
            f"num_speculative_tokens is {here or 0} here and {given or 0} for {first.where}, but a hybrid model "
            "needs the same on both sides.",
            "give --speculative-config once, in engine_args.",
        )


def _check_speculating_prefill(topology: Topology, report: Report) -> None:
    """docs/source/tutorials/features/pd_disaggregation_mooncake_multi_node.md@182b75ea, parameter notes."""
    if "hybrid" in topology.model.features:
        return
    for prefill in topology.prefill:
        tokens = speculative_tokens(vllm.arguments(topology, prefill))
        if tokens is not None and tokens != 1:
            report.warning(
                "speculation-prefill",
                f"{prefill.where}.args",
                f"num_speculative_tokens is {tokens}, but prefill takes 1, however many decode takes.",
                "set it to 1 for prefill.",
            )
