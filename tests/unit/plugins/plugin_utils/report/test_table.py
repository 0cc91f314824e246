# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from itertools import pairwise

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import document, table
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import topologies
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.report import documents

SMALL = """\
PLAN qwen
  vllm_ascend 0.11.0, mooncake 0.3.8, model qwen
  MooncakeConnectorV1 over ascend: decode pulls, prefill listens
  3 hosts, 1 prefill (dp 2 tp 8), 1 decode (tp 4), 7 processes, 20 NPUs A2
  clients: 192.0.2.3:8000 on npu3

  PROCESS   ROLE                      DEVICES  PORTS                                      UNIT
npu1  192.0.2.1
  p1-0      prefill head, rank 0      0-7      api 7100  kv 30000-30007                   mooncake-pd-p1-0
  drawn from  transfer-adxl 20000-20800  transfer-rpc 15000-17000
npu2  192.0.2.2
  p1-1      prefill headless, rank 1  0-7      kv 30008-30015                             mooncake-pd-p1-1
  drawn from  transfer-adxl 20000-20800  transfer-rpc 15000-17000
npu3  192.0.2.3
  d1        decode rank 0             0-3      api 7100                                   mooncake-pd-d1
  master    Mooncake master                    master-rpc 17051                           mooncake-pd-master
  router-a  router                             router 127.0.0.1:18001                     mooncake-pd-router-a
  router-b  router                             router 127.0.0.1:18002                     mooncake-pd-router-b
  router    front door                         frontend 8000                              mooncake-pd-router
  drawn from  transfer-adxl 20000-20800  transfer-rpc 15000-17000

START ORDER, each proven ready before the next
  1 master   master on npu3
  2 prefill  p1 (npu1 npu2)
  3 decode   d1 on npu3
  4 router   router-a router-b router on npu3

WARNINGS (1)
  topology.yml:21 prefill[0].kv_port [port-in-nodeport-range]
    30000-30015 lies in the range of NodePorts, which NAT takes without any listener.
    Mend: use 22000.

WAIVED (1)
  topology.yml hosts.npu4 [host-unused]
    nothing of the plan runs there.
    Waived: a spare

CHOSEN BY THE PLAN (2); what topology.yml says wins
  prefill[0].api_port decode[0].api_port = 7100  the first port of the engine.
"""

LARGE = """\
  PROCESS      ROLE            DEVICES  PORTS
npu1..npu500  198.18.0.1 .. 198.18.1.250  500 hosts alike
  p1..p500     prefill rank 0  0-7      api 7100  kv 30000-30007
  drawn from  transfer-adxl 20000-20800  transfer-rpc 15000-17000
npu501..npu1000  198.18.2.1 .. 198.18.3.250  500 hosts alike
  d501..d1000  decode rank 0   0-7      api 7100
  drawn from  transfer-adxl 20000-20800  transfer-rpc 15000-17000

START ORDER, each proven ready before the next
  1 prefill  p1..p500 on npu1..npu500
  2 decode   d501..d1000 on npu501..npu1000
"""


def test_table() -> None:
    assert table.text(documents.small()) == SMALL


def test_thousand_hosts_are_told_in_a_few_lines_and_one_by_one_on_demand() -> None:
    content = documents.large()
    assert table.text(content).endswith(LARGE)
    assert len(table.lines(content, apart=1000)) > 3000


def test_nothing_is_wider_than_a_terminal_and_no_port_is_lost() -> None:
    content = documents.small()
    ports = [documents.claim(f"purpose-{n}", 10000 + n, address="192.0.2.1") for n in range(12)]
    content["hosts"]["npu1"]["processes"][0]["claims"]["ports"][:0] = ports
    content["warnings"][0]["message"] = "long " * 60
    told = table.text(content)
    assert max(map(len, told.splitlines())) <= table.WIDTH
    assert all(f"purpose-{n} {10000 + n}" in told for n in range(12))


def test_many_ranks_are_one_row_with_a_unit_pattern() -> None:
    ranks = [documents.engine(f"d1-{n}", "decode", "192.0.2.1", [n], [n]) for n in range(16)]
    content = documents.document([documents.host("npu1", "192.0.2.1", ranks, 16)], [])
    row = next(line for line in table.text(content).splitlines() if "d1-0" in line)
    assert row.split() == ["d1-0..d1-15", "decode", "ranks", "0-15", "0-15", "api", "7100", "'mooncake-pd-d1-*'"]


def test_a_host_without_processes_and_a_plan_without_findings() -> None:
    told = table.text(documents.document([documents.host("spare", "192.0.2.9", [], None)], []))
    assert "spare  192.0.2.9\n  nothing of the plan runs here\n" in told
    assert not any(title in told for title in ("WARNINGS", "WAIVED", "CHOSEN", "DEVICES"))
    assert "clients: there is no router" in told


def test_pools_and_headings_have_styles() -> None:
    styles = {line.text.split()[0]: line.style for line in table.lines(documents.small()) if line.text.strip()}
    assert (styles["PLAN"], styles["npu1"], styles["drawn"], styles["p1-0"]) == ("title", "host", "dim", "plain")
    warning = next(line for line in table.lines(documents.small()) if "[port-in-nodeport-range]" in line.text)
    assert warning.style == "warning"


def test_joined_lines_are_the_same_text() -> None:
    lines = table.lines(documents.small())
    joined = table.joined(lines)
    assert "\n".join(line.text for line in joined) == "\n".join(line.text for line in lines)
    assert len(joined) < len(lines)
    assert all(one.style != other.style for one, other in pairwise(joined))


def test_table_of_a_real_plan() -> None:
    told = table.text(document.document(topologies.plan(topologies.cpu())))
    assert "prefill" in told
    assert "bootstrap *:8998" in told
    assert "DEVICES" not in told
