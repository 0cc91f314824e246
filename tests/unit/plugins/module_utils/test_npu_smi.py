# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils import npu_smi
from ansible_collections.mooncake.pd.plugins.module_utils.npu_smi import MIB

A2 = """
+-----------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+---------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+===================================================+
| 0     910B4               | OK            | 81.2        39                0    / 0             |
| 0                         | 0000:C1:00.0  | 7           0    / 0          2790 / 32768         |
+===========================+===============+===================================================+
| 5     910B4               | Warning       | 80.1        41                0    / 0             |
| 0                         | 0000:02:00.0  | 0           0    / 0          30112/ 32768         |
+===========================+===============+===================================================+
+---------------------------+---------------+---------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+===================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+===================================================+
| 5       0                 | 31007         |                          | 27001                   |
| 5       0                 | 31009         | VLLMWorker_TP            | 131                     |
| 5       0                 | 31009         | VLLMEngineCor            | 18                      |
+===========================+===============+===================================================+
"""

A3 = """
| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+===================================================+
| 3     Ascend910           | OK            | 171.0       38                0    / 0             |
| 0     6                   | 0000:97:00.0  | 0           0    / 0          3127 / 65536         |
| 3     Ascend910           | OK            | -           37                0    / 0             |
| 1     7                   | 0000:99:00.0  | 0           0    / 0          2911 / 65536         |
+===========================+===============+===================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
| 3       1                 | 900           | python3                  | 92                      |
"""

# 26.x: wide, a sixth column of processes, and a second number that the head does not name
WIDE = """
| npu-smi 26.0.1                   Version: 26.0.1                                                              |
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip                      | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
| 2     Ascend910           | OK            | 160.4                35                      0    / 0                |
| 0     4                   | 0000:95:00.0  | 0                    0    / 0                51231/ 65536            |
| 2     Ascend910           | Critical      | -                    36                      0    / 0                |
| 1     5                   | 0000:96:00.0  | 0                    0    / 0                2903 / 65536            |
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
| 2       0                 | 7100          | sglangschedul      | 48210                 | 118                     |
| 2       0                 | 7200          | python             | 150                   | NA                      |
"""

A5 = """
| npu-smi 27.0.rc1    Version: 27.0.rc1 |
| NPU ID | Name        | Health | Power(W) Temp(C) Hugepages-Usage(page) |
|        |             | Bus-Id | NPU Util(%) Memory-Usage(MB) HBM-Usage(MB) |
| 1      | Ascend950PR | OK     | 130.5 44 0 / 0 |
|        |             | NA     | 35 0 / 0 2048 / 114688 |
| 4      | Ascend950PR | Alarm  | 131.0 45 0 / 0 |
|        |             | NA     | 0 0 / 0 1024 / 114688 |
| NPU ID | Process id | Process name | Process memory(MB) | Process id in container |
| 1      | 8123       | python       | 733                | NA                      |
| No running processes found in NPU 4 |
"""


def read(text: str, mapped: dict[tuple[int, int], dict[str, Any]] | None = None) -> npu_smi.Overview:
    found = npu_smi.overview(text)
    if mapped is not None:
        npu_smi.number(found, mapped)
    return found


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_a2() -> None:
    found = read(A2)
    assert found.problems == []
    assert found.version == "24.1.rc2"
    assert found.chips[1] == {
        "id": 5,
        "card": 5,
        "chip": 0,
        "phy_id": 5,
        "name": "910B4",
        "health": "Warning",
        "bus_id": "0000:02:00.0",
        "aicore": 0,
        "hbm_used": 30112 * MIB,
        "hbm_total": 32768 * MIB,
        "temperature": 41,
        "power": 80.1,
    }
    assert found.chips[0]["aicore"] == 7
    assert [(p["chip"], p["pid"], p["name"], p["memory"]) for p in found.processes] == [
        (5, 31007, "", 27001 * MIB),
        (5, 31009, "VLLMWorker_TP", 131 * MIB),
        (5, 31009, "VLLMEngineCor", 18 * MIB),
    ]
    assert column(found.processes, "container_pid") == [None, None, None]
    assert npu_smi.generation(found.chips) == "A2"


def test_a3_counts_chips_over_the_host() -> None:
    found = read(A3)
    assert found.problems == []
    assert column(found.chips, "id") == column(found.chips, "phy_id") == [6, 7]
    assert column(found.chips, "power") == [171.0, None]
    assert column(found.processes, "chip") == [7]
    assert npu_smi.generation(found.chips) == "A3"


def test_wide_form_of_26() -> None:
    found = read(WIDE)
    assert found.problems == []
    assert column(found.chips, "id") == column(found.chips, "phy_id") == [4, 5]
    assert column(found.chips, "hbm_used") == [51231 * MIB, 2903 * MIB]
    assert column(found.chips, "health") == ["OK", "Critical"]
    assert [(p["chip"], p["container_pid"]) for p in found.processes] == [(4, 118), (4, None)]


def test_a5_has_no_chips_on_a_card() -> None:
    found = read(A5)
    assert found.problems == []
    assert [(c["id"], c["chip"], c["bus_id"], c["aicore"], c["hbm_used"]) for c in found.chips] == [
        (1, 0, None, 35, 2048 * MIB),
        (4, 0, None, 0, 1024 * MIB),
    ]
    assert column(found.chips, "health") == ["OK", "Alarm"]
    assert column(found.processes, "chip") == [1]
    assert npu_smi.generation(found.chips) == "A5"


def test_numbers_by_the_map_where_the_overview_has_none() -> None:
    text = A3.replace("Chip  Phy-ID", "Chip        ").replace("0     6 ", "0       ").replace("1     7 ", "1       ")
    found = read(text)
    assert column(found.chips, "id") == [6, 7]  # counted
    mapped = npu_smi.mapping(
        "\tNPU ID                         Chip ID                        Chip Logic ID                  "
        "Chip Phy-ID                    Chip Name\n"
        "\t3                              0                              2                              "
        "8                              Ascend910\n"
        "\t3                              1                              3                              "
        "9                              Ascend910\n"
        "\t3                              2                              -                              "
        "-                              Mcu\n"
    )
    assert mapped == {(3, 0): {"logic": 2, "phy": 8}, (3, 1): {"logic": 3, "phy": 9}}
    found = read(text, mapped)
    assert column(found.chips, "id") == column(found.chips, "phy_id") == [8, 9]
    assert column(found.processes, "chip") == [9]


def test_one_chip_on_a_card_is_its_own_number() -> None:
    found = read(A2, {(0, 0): {"logic": 0, "phy": None}, (5, 0): {"logic": 5, "phy": None}})
    assert column(found.chips, "phy_id") == [0, 5]
    assert column(read(A2, {}).chips, "phy_id") == [0, 5]
    double = read(
        A3.replace("Chip  Phy-ID", "Chip        ").replace("0     6 ", "0       ").replace("1     7 ", "1       ")
    )
    assert column(double.chips, "phy_id") == [None, None]


@pytest.mark.parametrize(
    ("broken", "what", "why"),
    [
        ("npu=0 state=OK", "chips", "no table of NPUs"),
        (A2.split("| NPU     Chip", maxsplit=1)[0], "processes", "no table of processes"),
        (A2.replace("| No running processes found in NPU 0 ", "| nothing "), "processes", "processes of NPU 0"),
        (
            A2.replace("| 5       0                 | 31007 ", "| 5       0                 | pid31007"),
            "processes",
            "| 5",
        ),
        (A2.replace("30112/ 32768", "NA        "), "chips", "hbm_used of NPU 5"),
        (A2.replace("| Warning       |", "|               |"), "chips", "health of NPU 5"),
        (A2.replace("| 5     910B4 ", "| five  910B4 "), "chips", "five"),
        (A2.replace("27001", "much "), "processes", "memory of pid 31007"),
        (A3.replace("| 1     7                   | 0000:99:00.0 ", "| 1     7                   "), "chips", "| 3 "),
    ],
)
def test_what_is_not_understood_is_unknown(broken: str, what: str, why: str) -> None:
    assert broken not in (A2, A3)
    problems = npu_smi.overview(broken).problems
    assert any(told == what and why in reason for told, reason in problems), problems


def test_cut_off_in_the_middle_of_a_chip() -> None:
    text = A2[: A2.index("| 0                         | 0000:02")]
    assert [what for what, _why in npu_smi.overview(text).problems] == ["chips", "processes"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dcmi model initialized failed, because the device is used. ret is -8020", "-8020: the NPUs are in use"),
        (
            "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005",
            "-8005: the",
        ),
        ("dcmi module initialize failed. ret is -8099", "-8099: unknown code"),
        ("npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open", "libdrvdsmi_host.so"),
        ("This device does not support querying spod-info.", "not support"),
    ],
)
def test_refusals_on_stdout(text: str, why: str) -> None:
    assert why in str(npu_smi.refusal(text))


@pytest.mark.parametrize("text", [A2, A3, WIDE, A5, ""])
def test_tables_are_no_refusal(text: str) -> None:
    assert npu_smi.refusal(text) is None


def test_superpod() -> None:
    lines = "\tNPU ID        : 3\n\tChip ID       : 1\n\tSDID          : 121634823\n\tSuper Pod Size : 384\n"
    told = npu_smi.superpod(lines + "\tSuper Pod ID  : 5\n\tServer Index  : 1\n")
    assert told == {"superpod": 5, "sdid": 121634823, "size": 384, "server_index": 1}
    drawn = npu_smi.superpod("+----+----+\n| Super Pod ID     : 5     | Pod ID : 1      |\n+----+----+\n")
    assert drawn == {"superpod": 5, "sdid": None, "size": None, "server_index": None}


@pytest.mark.parametrize(
    ("name", "place", "generation"),
    [
        ("910B2C", 0, "A2"),
        ("Ascend 910B1", 0, "A2"),
        ("Ascend910_9392", 1, "A3"),
        ("Ascend910", 0, None),  # also the name of the generation before A2
        ("310P3", 0, None),
        ("Ascend950DT", 0, "A5"),
    ],
)
def test_generation_by_name(name: str, place: int, generation: str | None) -> None:
    assert npu_smi.generation([{"name": name, "chip": place}]) == generation


def test_no_generation() -> None:
    assert npu_smi.generation([]) is None
    assert npu_smi.generation([{"name": "910B3", "chip": 0}, {"name": "310P3", "chip": 0}]) is None


@given(st.text(alphabet=st.sampled_from("|+= 0123456789/NPUIDChipHealthNameBus-IdProcessid\n()%.")))
def test_any_text_is_read_without_a_fall(text: str) -> None:
    found = npu_smi.overview(text)
    assert found.chips or found.problems
    npu_smi.mapping(text)
    npu_smi.superpod(text)


@given(st.integers(0, len(A3)), st.sampled_from([A2, A3, WIDE, A5]))
def test_a_table_that_is_cut_off_is_never_complete(end: int, text: str) -> None:
    cut = text[:end].rstrip("+=\n ")
    whole = npu_smi.overview(text)
    found = npu_smi.overview(cut)
    if len(found.chips) < len(whole.chips):
        assert found.problems
