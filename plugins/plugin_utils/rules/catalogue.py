# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule by its id. What a rule found, and what it would break, its message says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    severity: str
    about: str  # what has to hold
    # a warning can always be accepted; an error only where the processes are defined and could run all the same
    accept: bool = False
    # some releases end with an error where others only pass over it
    varies: bool = False
    # about waivers themselves
    final: bool = False

    @property
    def waivable(self) -> bool:
        return not self.final and (self.accept or self.severity == "warning")


def _error(about: str, accept: bool = False) -> Rule:
    return Rule("error", about, accept)


def _warning(about: str) -> Rule:
    return Rule("warning", about)


def _either(about: str) -> Rule:
    return Rule("error", about, accept=True, varies=True)


RULES = {
    # the file
    "yaml-duplicate-key": _error("every key stands once"),
    "schema-type": _error("values have the type of their key"),
    "schema-required": _error("required keys are there"),
    "schema-unknown-key": _error("only known keys stand in the file"),
    "schema-choice": _error("values are among the choices of their key"),
    "schema-range": _error("numbers are not too small"),
    "version-invalid": _error("versions are versions"),
    "address-invalid": _error("addresses are addresses of one host"),
    # hosts and places
    "host-name": _error("host names are no group names or patterns"),
    "host-unknown": _error("processes run on hosts of the file"),
    "host-unused": _warning("every host has something to run"),
    "host-vars": _error("host variables do not hide the plan"),
    "address-duplicate": _error("hosts have addresses of their own"),
    "address-ipv6": _error("addresses are IPv4"),
    "address-loopback": _error("peers can reach the addresses"),
    "address-docker": _warning("addresses are not those of docker0"),
    "interface-missing": _warning("ranks that meet across hosts know the interface"),
    "side-missing": _error("there is prefill and decode"),
    "instance-name": _error("instance names can name units and groups"),
    "instance-duplicate": _error("instances have names of their own"),
    "instance-host": _error("every instance has a host, each of its hosts once"),
    "generation-mixed": _error("all NPUs are of one generation", accept=True),
    # releases and connectors
    "version-newer": _warning("releases are known"),
    "mooncake-behind": _warning("the release of Mooncake is as new as the engine was tested with"),
    "mooncake-ahead": _warning("the release of Mooncake is the one that the engine was tested with"),
    "connector-unknown": _error("the connector is one of the engine's"),
    "connector-version": _error("the release has the connector"),
    "connector-protocol": _error("the connector has the protocol"),
    "companion-unknown": _error("what stands beside the connector is known"),
    "companion-version": _error("the release has what stands beside the connector"),
    "companion-side": _error("what stands beside the connector serves that side"),
    "companion-twice": _error("what stands beside the connector is named once"),
    "companion-lookup": _error("instances of a host look keys up by numbers of their own"),
    "engine-id-duplicate": _error("instances have engine ids of their own"),
    "pool-ranks": _error("ranks of a host look keys up by sockets of their own"),
    "pool-layerwise": _warning("the pool stands beside a connector that it was tried with"),
    "pool-mooncake": _warning("the release of Mooncake is new enough for the pool"),
    "pool-master": _warning("a pool has a master"),
    "pool-config": _error("a pool has its configuration file", accept=True),
    "store-master": _error("the pool has a master"),
    "store-idle": _warning("a connector uses the pool"),
    "store-backend": _error("the pool is Mooncake's"),
    "store-release": _error("the release has what the pool needs"),
    "store-host": _error("a host has one store node"),
    "store-empty": _error("somebody brings memory into the pool"),
    "store-segment": _error("the engine takes the size of the segments"),
    "store-segment-large": _warning("an adapter can register a segment as a whole"),
    "store-protocol": _error("all clients of the pool speak the protocol"),
    "store-transport": _error("the pool moves KV as prefill and decode do"),
    "store-node-npu": _error("the store nodes can speak the protocol", accept=True),
    "store-devices": _warning("the devices have an effect"),
    "store-ssd-path": _error("the disk of the pool has a folder that the store takes"),
    "store-ssd-engine": _error("workers of the engine can use a disk"),
    "store-ssd-quota": _error("the disk of the pool takes a file"),
    # sizes
    "shape-single": _error("an instance of vllm_cpu is one process"),
    "shape-hosts": _error("ranks are dealt out evenly to hosts"),
    "shape-differs": _error("all instances of a side have one shape"),
    "shape-tp": _error("tp of prefill and decode fit each other"),
    "shape-decode": _error("decode has neither pp nor pcp"),
    "shape-pp-pcp": _error("pp and pcp exclude each other"),
    "shape-pp-push": _error("layerwise transfer has no pipeline stages"),
    "shape-uncounted": _error("workers have ports of their own"),
    "shape-dcp": _error("dcp divides tp"),
    "shape-dcp-sides": _error("dcp is used on both sides or on neither"),
    "dense-dp": _error("a dense model has dp 1", accept=True),
    "dense-dp-unsure": _warning("a model with dp above 1 is a mixture of experts"),
    "c8-pull": _error("the connector can move a quantised KV cache"),
    "features-contradict": _error("what is said of the model can be true"),
    "recompute-hybrid": _error("hybrid models fail a request instead of computing it again"),
    "option-differs": _warning("both sides write KV in one form"),
    "speculation-differs": _warning("both sides of a hybrid model speculate alike"),
    "speculation-prefill": _warning("prefill speculates one token"),
    # devices
    "devices-count": _error("every worker has a device"),
    "devices-overlap": _error("every device has one worker"),
    "devices-beyond": _error("hosts have the devices"),
    # settings beside the plan
    "abbreviated-argument": _error("options are written in full"),
    "glued-argument": _error("options and values are arguments of their own"),
    "refused-argument": _error("options leave the service reachable and provable"),
    "refused-variable": _error("variables leave the service reachable and provable"),
    "planned-argument": _error("the plan alone writes what it decides"),
    "planned-variable": _error("the plan alone writes what it decides"),
    "planned-extra-config": _error("the plan alone writes what it decides"),
    "key-without-effect": _error("keys have an effect"),
    "dp-rpc-idle": _warning("keys have an effect"),
    "group-idle": _warning("keys have an effect"),
    "variable-differs": _error("both ends of a link agree", accept=True),
    # what the releases make of variables and options
    "variable-value": _error("variables have a value that is taken", accept=True),
    "variable-json": _error("variables that hold JSON hold JSON", accept=True),
    "variable-range": _error("variables that give a range give one", accept=True),
    "variable-presence-only": _error("variables that count by being set are set when meant", accept=True),
    "variables-exclude": _error("variables do not exclude each other", accept=True),
    "variable-dead": _warning("variables are read by the release"),
    "variable-too-old": _warning("variables are read by the release"),
    "variable-unknown-spelling": _warning("variables are spelt as somebody reads them"),
    "variable-ports": _warning("variables do not move ports away from the plan"),
    "proxy-variable": _warning("traffic inside the cluster goes through no proxy"),
    "npu-port-auto": _warning("peers find the ports of NPUs"),
    "transfer-timeout-short": _warning("a transfer may take as long as the network tries"),
    "exec-timeout-capped": _warning("timeouts count as they are written"),
    "option-dead": _error("the release takes the options", accept=True),
    "option-too-old": _error("the release takes the options", accept=True),
    "option-json": _error("options that hold JSON hold JSON"),
    "additional-config-dead": _either("the release reads the keys of --additional-config"),
    "additional-config-too-old": _either("the release reads the keys of --additional-config"),
    "additional-config-unknown": _either("the release reads the keys of --additional-config"),
    "additional-config-value": _error("keys of --additional-config have a value that is taken", accept=True),
    "additional-config-side": _either("keys of --additional-config stand on the side that takes them"),
    "additional-config-needs": _error("keys of --additional-config have what they need", accept=True),
    "extra-config-dead": _warning("the release reads the keys of extra_config"),
    "extra-config-too-old": _warning("the release reads the keys of extra_config"),
    "extra-config-unknown": _warning("the release reads the keys of extra_config"),
    "extra-config-renamed": _warning("keys of extra_config have their new name"),
    "extra-config-value": _error("keys of extra_config have a value that is taken", accept=True),
    "extra-config-direct": _error("both ends use one transport of Mooncake", accept=True),
    "transfer-config-key": _error("the release knows what the plan writes for the connector"),
    # etcd
    "etcd-place": _error("etcd runs on hosts of the plan or elsewhere"),
    "etcd-hosts": _error("etcd has one member on a host"),
    "etcd-endpoint": _error("endpoints of etcd can be reached by all hosts"),
    "etcd-even": _warning("etcd has an odd number of members"),
    "etcd-many": _warning("etcd has seven members at most"),
    "etcd-tls": _warning("etcd takes connections of Mooncake"),
    # the master
    "master-place": _error("the master runs on one host, or on several that stand by"),
    "master-hosts": _error("there is one master on a host"),
    "master-alone": _warning("a master of several is not alone"),
    "master-etcd": _error("several masters have an etcd that they can use"),
    "master-ha-release": _error("a master that stands by says so"),
    "master-cluster": _error("the name of the masters' cluster can be a key"),
    "master-flag-too-old": _error("the release of Mooncake knows the master's flags"),
    "master-metadata": _error("metadata outlives a change of the leader", accept=True),
    "master-snapshot": _error("snapshots of the master have a folder"),
    "master-snapshot-local": _warning("whoever leads finds the snapshots"),
    "master-watermark": _warning("the master evicts before puts fail"),
    "master-client-ttl": _warning("a client that is late is not taken for lost"),
    "master-lease": _warning("what is leased or pinned is kept as long"),
    # the router
    "router-kind": _error("the router speaks the connector's contract"),
    "router-backends": _error("there are two router processes"),
    # ports
    "port-out-of-range": _error("ports are ports"),
    "port-overlap": _error("a port has one owner"),
    "port-in-pool": _error("no port lies where others draw at random", accept=True),
    "port-in-ephemeral-range": _warning("no port lies where the kernel draws at random"),
    "port-in-nodeport-range": _warning("no port lies where Kubernetes redirects"),
    # waivers
    "waiver-unknown": _error("waivers name rules"),
    "waiver-host": _error("waivers name what the rule is about"),
    "waiver-refused": _error("waivers name rules that can be waived"),
    "waiver-unused": Rule("warning", "waivers are needed", final=True),
}
