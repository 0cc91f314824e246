# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin, loaded by Ansible itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager

from ansible_collections.mooncake.pd.plugins.inventory.topology import DOCUMENTATION, EXAMPLES, InventoryModule
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import build_plan
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.fields import keys
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import Topology, read_topology
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import cpu

NAME = "mooncake.pd.topology"
SHIPPED = sorted((Path(__file__).parents[4] / "inventories").glob("*/topology.yml"))


@pytest.fixture
def plugin():
    plugin = InventoryModule()
    plugin._load_name = plugin._original_path = NAME  # what Ansible's plugin loader adds
    return plugin


@pytest.fixture
def manage(plugin, monkeypatch):
    """Runs the inventory manager of Ansible with this plugin alone.

    pytest has imported the collection without Ansible's own importer, so Ansible's plugin loader cannot find it here.
    """
    monkeypatch.setattr(C, "INVENTORY_ENABLED", [NAME])
    monkeypatch.setattr(inventory_loader, "get", lambda name, *_args, **_options: {NAME: plugin}.get(name))

    def run(path):
        loader = DataLoader()
        manager = InventoryManager(loader=loader, sources=[path])
        return manager, VariableManager(loader=loader, inventory=manager), loader

    return run


@pytest.fixture
def written(tmp_path):
    """Writes a topology and returns its path."""

    def write(content):
        path = tmp_path / "topology.yml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return str(path)

    return write


def parse(plugin, path):
    inventory = InventoryData()
    plugin.parse(inventory, DataLoader(), path)
    return inventory


def all_types(value):
    if isinstance(value, dict):
        return {type(value)}.union(*(all_types(item) for pair in value.items() for item in pair))
    if isinstance(value, list):
        return {type(value)}.union(*(all_types(item) for item in value))
    return {type(value)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("topology.yml", True), ("lab-topology.yaml", True), ("hosts.yml", False), ("topology.json", False)],
)
def test_which_files_it_takes(plugin, tmp_path, name, expected):
    (tmp_path / name).write_text("plugin: x")
    assert plugin.verify_file(str(tmp_path / name)) is expected
    assert plugin.verify_file(str(tmp_path / "missing" / name)) is False


def test_hosts_groups_and_variables(plugin, written):
    path = written(cpu())
    inventory = parse(plugin, path)
    expected = build_plan(read_topology(cpu(), path))
    groups = {name: [host.name for host in group.hosts] for name, group in inventory.groups.items()}
    assert {name: groups[name] for name in expected.groups()} == expected.groups()
    assert inventory.groups["pd"].vars["pd_cluster"] == expected.cluster()
    for host in ("control", "p1", "d1"):
        variables = inventory.hosts[host].vars
        assert {name: variables[name] for name in ("ansible_host", "pd_host")} == expected.hostvars(host)
        assert "pd_cluster" not in variables


def test_a_play_sees_hosts_and_variables(manage, written):
    manager, variable_manager, _loader = manage(written(cpu()))
    assert [host.name for host in manager.get_hosts("prefill:decode")] == ["p1", "d1"]
    variables = variable_manager.get_vars(host=manager.get_host("d1"))
    assert variables["pd_cluster"]["name"] == "lab"
    assert variables["pd_host"]["processes"][0]["name"] == "d1"


def test_values_are_plain(plugin, written):
    inventory = parse(plugin, written(cpu()))
    values = [inventory.groups["pd"].vars["pd_cluster"], *(host.vars["pd_host"] for host in inventory.hosts.values())]
    assert all_types(values) <= {dict, list, str, int, bool, type(None)}


def test_values_of_hosts_carry_no_tags(manage, written):
    """They cost more than the values do: of 1,000 hosts there are hundreds of thousands."""
    manager, _variables, _loader = manage(written(cpu()))
    told = [manager.get_host(name).vars["pd_host"] for name in ("control", "p1", "d1")]
    assert all_types(told) <= {dict, list, str, int, bool, type(None)}


def test_variables_of_a_host_win_and_stay_what_they_are(plugin, written):
    raw = cpu()
    raw["hosts"]["p1"]["vars"] = {"ansible_user": "root", "rack": [1, 2], "motd": "{{ inventory_hostname }}"}
    raw["hosts"]["d1"]["vars"] = {"ansible_host": "d1.example"}
    raw["hosts"]["control"]["vars"] = {"ansible_connection": "podman"}
    hosts = parse(plugin, written(raw)).hosts
    assert hosts["p1"].vars["ansible_host"] == "192.0.2.11"
    assert (hosts["p1"].vars["ansible_user"], hosts["p1"].vars["rack"]) == ("root", [1, 2])
    assert hosts["d1"].vars["ansible_host"] == "d1.example"
    assert "ansible_host" not in hosts["control"].vars


def test_templates_in_variables_are_rendered(manage, written):
    raw = cpu()
    raw["hosts"]["p1"]["vars"] = {"motd": "{{ inventory_hostname }} of {{ pd_cluster.name }}"}
    manager, variable_manager, loader = manage(written(raw))
    variables = variable_manager.get_vars(host=manager.get_host("p1"))
    assert Templar(loader=loader, variables=variables).template(variables["motd"]) == "p1 of lab"


def test_a_vault_value_in_variables_does_no_harm(plugin, written):
    text = yaml.safe_dump(cpu(), sort_keys=False).replace(
        "address: 192.0.2.11",
        "address: 192.0.2.11\n    vars:\n      secret: !vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        6162",
    )
    assert "secret" in parse(plugin, written(text)).hosts["p1"].vars


def test_all_problems_come_in_one_error_with_their_lines(plugin, written):
    raw = cpu()
    raw["prefill"] = [{"name": "p1", "host": "p7", "api_prot": 1}]
    raw["decode"][0]["kv_port"] = 28002
    path = written(raw)
    with pytest.raises(AnsibleParserError) as caught:
        parse(plugin, path)
    report = str(caught.value)
    assert f"{path} cannot be planned, 3 problems:" in report
    for line, text in enumerate(Path(path).read_text().splitlines(), start=1):
        for key, rule in (
            ("api_prot", "schema-unknown-key"),
            ("host: p7", "host-unknown"),
            ("kv_port", "key-without-effect"),
        ):
            if key in text:
                assert f"topology.yml:{line} " in report
                assert f"[{rule}]" in report


@pytest.mark.parametrize("key", ["1", "~", "no"])
def test_a_host_without_a_name_of_text_is_an_error(plugin, written, key):
    text = yaml.safe_dump(cpu(), sort_keys=False).replace("  p1:\n", f"  {key}:\n", 1)
    line = text.splitlines().index(f"  {key}:") + 1
    with pytest.raises(AnsibleParserError, match=r"hosts\..*\[schema-type\].*a name has to be text") as caught:
        parse(plugin, written(text))
    assert f"topology.yml:{line} " in str(caught.value) or key != "1"


def test_a_host_written_twice_is_an_error(plugin, written):
    text = yaml.safe_dump(cpu(), sort_keys=False).replace("  d1:\n", "  p1:\n", 1)
    with pytest.raises(AnsibleParserError, match=r"hosts\.p1: \[yaml-duplicate-key\]"):
        parse(plugin, written(text))


@pytest.mark.parametrize("text", ["", "- a\n", "plugin: other.thing.topology\n"])
def test_what_is_no_topology(plugin, written, text):
    with pytest.raises(AnsibleParserError, match=NAME):
        parse(plugin, written(text))


def test_broken_yaml_is_reported_by_ansible(plugin, written):
    with pytest.raises(AnsibleParserError):
        parse(plugin, written("plugin: [\n"))


def test_a_second_topology_is_refused(plugin, written):
    first = parse(plugin, written(cpu()))
    with pytest.raises(AnsibleParserError, match="is the second topology of this run"):
        plugin.parse(first, DataLoader(), written({**cpu(), "name": "other"}))


def test_warnings_are_shown(plugin, written, monkeypatch):
    shown = []
    monkeypatch.setattr(plugin.display, "warning", lambda text, *_args, **_options: shown.append(text))
    raw = cpu()
    raw["master"]["rpc_port"] = 50051
    parse(plugin, written(raw))
    (text,) = shown
    assert "master.rpc_port: [port-in-ephemeral-range]" in text


TYPES = {
    "text": ("str", None),
    "version": ("str", None),
    "address": ("str", None),
    "integer": ("int", None),
    "boolean": ("bool", None),
    "share": ("float", None),
    "port": ("int", None),
    "size": ("str", None),
    "section": ("dict", None),
    "mapping": ("dict", None),
    "json": ("dict", None),
    "variables": ("dict", None),
    "named": ("dict", None),
    "sections": ("list", "dict"),
    "words": ("list", "str"),
    "names": ("list", "str"),
    "ports": ("list", "int"),
    "numbers": ("list", "int"),
}


def schema_options(section):
    """The schema in the form of a plugin's documentation."""
    options = {}
    for name, spec in keys(section).items():
        kind, elements = TYPES[spec.kind]
        option = {"type": kind, "elements": elements, "required": spec.required, "choices": list(spec.choices)}
        default = None if spec.required else spec.default
        option["default"] = list(default) if isinstance(default, tuple) else default
        if spec.kind == "named":
            # one entry, whose name is the operator's
            entry = {"type": "dict", "elements": None, "required": False, "choices": [], "default": None}
            option["suboptions"] = {"<name>": {**entry, "suboptions": schema_options(spec.section)}}
        else:
            option["suboptions"] = schema_options(spec.section) if spec.section else {}
        options[name] = option
    return options


def documented_options(options):
    return {
        name: {
            "type": option["type"],
            "elements": option.get("elements"),
            "required": option.get("required", False),
            "choices": option.get("choices", []),
            "default": option.get("default"),
            "suboptions": documented_options(option.get("suboptions", {})),
        }
        for name, option in options.items()
    }


def test_the_manual_and_the_schema_say_the_same():
    assert documented_options(yaml.safe_load(DOCUMENTATION)["options"]) == schema_options(Topology)


def test_every_option_is_described():
    def undescribed(options, path=""):
        for name, option in options.items():
            if not option.get("description"):
                yield f"{path}{name}"
            yield from undescribed(option.get("suboptions", {}), f"{path}{name}.")

    assert list(undescribed(yaml.safe_load(DOCUMENTATION)["options"])) == []


@pytest.mark.parametrize("example", list(yaml.safe_load_all(EXAMPLES)), ids=lambda example: example["name"])
def test_the_examples_can_be_planned(example):
    assert build_plan(read_topology(example)).warnings == ()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_the_inventories_can_be_planned(plugin, path, monkeypatch):
    shown = []
    monkeypatch.setattr(plugin.display, "warning", shown.append)
    inventory = parse(plugin, str(path))
    assert shown == []
    assert inventory.groups["pd"].vars["pd_cluster"]["name"]
    assert inventory.groups["router"].vars["pd_instances"]


def test_the_ascend_example_is_complete():
    (folder,) = (path.parent for path in SHIPPED if path.parent.name == "ascend_1p1d_a2")
    variables = yaml.safe_load((folder / "group_vars/all.yml").read_text())
    environment = yaml.safe_load((folder / "topology.yml").read_text())["engine_environment"]
    assert (variables["engine_mode"], variables["mooncake_mode"]) == ("installed", "installed")
    assert {"ansible_user", "engine_path", "instance_groups"} <= set(variables)
    assert variables["instance_ready_timeout"] > int(environment["VLLM_ENGINE_READY_TIMEOUT_S"])
    # it would replace LD_LIBRARY_PATH of the topology
    assert "instance_environment" not in variables
    assert "LD_LIBRARY_PATH" in environment


@pytest.mark.parametrize("path", [path for path in SHIPPED if path.parent.name.startswith("sandbox")], ids=str)
def test_each_sandbox_has_the_name_of_the_lab_that_make_brings_up(path):
    """Its keys and known_hosts lie under this name, see group_vars and the Makefile's `lab up sandbox`."""
    assert yaml.safe_load(path.read_text())["name"] == "sandbox"


def test_a_thousand_hosts(plugin, written):
    """The plan of the cluster is stored once, and a host's variables do not grow with the cluster."""
    raw = cpu()
    few = {name: len(str(host.vars)) for name, host in parse(plugin, written(raw)).hosts.items()}
    for index in range(1000):
        raw["hosts"][f"n{index}"] = {"address": f"198.18.{index // 250}.{index % 250 + 1}"}
        raw["decode"].append({"name": f"n{index}", "host": f"n{index}"})
    many = parse(plugin, written(raw)).hosts
    assert len(many) == 1003
    assert few["d1"] == len(str(many["d1"].vars))
