# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import perftest, transfer_bench
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_bench import LATENCY, Sizes

SIZES = Sizes(block=1 << 20, batch=16, threads=4)
STARTED = """\
WARNING: Logging before InitGoogleLogging() is written to STDERR
I0102 03:04:05.000001    77 transfer_engine_impl.cpp:1] Metrics reporting is disabled
I0102 03:04:05.000002    77 transfer_engine_impl.cpp:1] Transfer Engine RPC using P2P handshake, listening on {}
E0102 03:04:05.000003    77 transfer_metadata.cpp:1] Local segment descriptor not found
"""
COMPLETED = (
    "I0102 03:04:07.000000    77 bench.cpp:1] Test completed: duration 2.50, batch count 100, throughput 0.67 GB/s\n"
)


def test_target_tells_where_it_listens() -> None:
    assert transfer_bench.parse_listening(STARTED.format("192.0.2.21:18502")) == "192.0.2.21:18502"
    assert transfer_bench.parse_listening(STARTED.format("[2001:db8::21]:18502")) == "[2001:db8::21]:18502"
    assert transfer_bench.parse_listening(STARTED.partition("Transfer Engine")[0]) is None


def test_figures_are_worked_out_from_the_counts() -> None:
    bandwidth, latency = transfer_bench.parse_completed(STARTED + COMPLETED, SIZES) or (0, 0)
    assert bandwidth == 100 * 16 * (1 << 20) / 2.5
    assert latency == 2.5 * 4 / 100
    assert transfer_bench.parse_completed(COMPLETED, LATENCY) == (100 * 4096 / 2.5, 0.025)


@pytest.mark.parametrize("text", ["", STARTED, COMPLETED.replace("100,", "0,"), COMPLETED.replace("2.50", "0.00")])
def test_no_figures(text: str) -> None:
    assert transfer_bench.parse_completed(text, SIZES) is None


def test_complaints_without_what_is_normal() -> None:
    failed = (
        STARTED.format("a:1") + "E0102 03:04:06.000000    78 plugin.cpp:9] connect(): Connection refused [111]\n" * 4
    )
    assert transfer_bench.complaint(failed) == "connect(): Connection refused [111]"
    assert transfer_bench.complaint("ld: libnuma.so.1 not found\n") == "ld: libnuma.so.1 not found"
    assert "Metrics reporting" in transfer_bench.complaint(STARTED)  # better than nothing
    assert transfer_bench.complaint("\n") == "it ended without a word"


def test_commands() -> None:
    target = transfer_bench.target_command("/x/bench", "192.0.2.21", "rdma", ["mlx5_0", "mlx5_1"], 1 << 26)
    assert target[1:] == [
        "--mode=target",
        "--metadata_server=P2PHANDSHAKE",
        "--local_server_name=192.0.2.21",
        "--protocol=rdma",
        "--device_name=mlx5_0,mlx5_1",
        "--buffer_size=67108864",
    ]
    bench = transfer_bench.initiator_command(
        "/x/bench", "192.0.2.11", "tcp", [], segment="192.0.2.21:18502", sizes=SIZES, duration=2
    )
    assert not [word for word in bench if word.startswith("--device_name")]
    assert {"--segment_id=192.0.2.21:18502", "--buffer_size=67108864", "--threads=4", "--duration=2"} <= set(bench)
    assert LATENCY.buffer == 1 << 20  # whole MiB
    assert transfer_bench.port_environment(18500, 18503) == {
        **{"MC_MIN_RPC_PORT": "18500", "MC_MAX_RPC_PORT": "18503"},
        **{"MC_MIN_PRC_PORT": "18500", "MC_MAX_PRC_PORT": "18503"},  # as releases before 0.3.11 call it
    }


def test_program_of_the_wheel(tmp_path: Path) -> None:
    assert transfer_bench.program(str(tmp_path)) is None
    wrapper, binary = (
        tmp_path / "bin/transfer_engine_bench",
        tmp_path / "lib/python3.11/site-packages/mooncake/transfer_engine_bench",
    )
    for path in (wrapper, binary):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    assert transfer_bench.program(str(tmp_path)) == str(binary)
    assert transfer_bench.program(str(binary)) == str(binary)
    binary.chmod(0o644)
    assert transfer_bench.program(str(binary)) is None


def test_ports_that_nobody_needs() -> None:
    claims = [{"first": 18500, "last": 18503}, {"first": 18508, "last": 18508}]
    taken = {18505}

    def choose(first: int, last: int) -> range | None:
        return transfer_bench.choose_ports(first, last, 4, claims, lambda port: port not in taken)

    assert choose(18500, 18520) == range(18509, 18513)
    assert choose(18500, 18512) == range(18509, 18513)
    assert choose(18500, 18511) is None
    assert choose(18512, 18500) is None


BANDWIDTH = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    2000             196.81             192.00  		   0.022888
---------------------------------------------------------------------------------------
"""
LATENCIES = """\
 #bytes #iterations  t_min[usec]  t_max[usec]  t_typical[usec]  t_avg[usec]  t_stdev[usec]  99% percentile[usec]
 8       1000          1.01       9.87         1.25     	 1.31        	0.10		2.00
"""


def test_perftest() -> None:
    assert perftest.parse(perftest.BANDWIDTH, BANDWIDTH) == 24e9
    assert perftest.parse(perftest.LATENCY, LATENCIES) == pytest.approx(1.25e-6)
    in_megabytes = BANDWIDTH.replace("Gb/sec", "MB/sec")
    for text in ("", "Couldn't connect to 192.0.2.21:18510", in_megabytes, BANDWIDTH.rpartition(" 1048576")[0]):
        assert perftest.parse(perftest.BANDWIDTH, text) is None


def test_perftest_is_called_alike_on_both_sides() -> None:
    server = perftest.command(perftest.BANDWIDTH, "/usr/bin/ib_write_bw", device="mlx5_0", port=18510, gid_index=3)
    client = perftest.command(
        perftest.BANDWIDTH, "/usr/bin/ib_write_bw", device="mlx5_2", port=18510, gid_index=5, server="192.0.2.21"
    )
    own = ("--ib-dev", "--gid-index")
    assert [w for w in server if not w.startswith(own)] == [w for w in client[:-1] if not w.startswith(own)]
    assert (client[-1], "--gid-index=5" in client) == ("192.0.2.21", True)
    assert not [
        w
        for w in perftest.command(perftest.LATENCY, "lat", device="ib0", port=1, gid_index=None)
        if w.startswith("--gid-index")
    ]
    assert perftest.serve(["a", "b c"])[-2:] == ["a", "b c"]
