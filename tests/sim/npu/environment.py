# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a folder that passes for an installation of vLLM-Ascend: engine_path with engine_mode installed.

It is a virtual environment of the host's Python 3 without packages, whose `vllm` is the twin. The same for
mooncake_path with mooncake_mode installed. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from twin import book, hccn, state

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PROXY = "load_balance_proxy_layerwise_server_example.py"
# What probes and people import or start of Mooncake; the real ones are C++.
ENGINE = """class TransferEngine:
    def __init__(self):
        raise RuntimeError("this Mooncake is a stand-in: only the twin of vllm serve uses it")
"""
STORE = """class MooncakeDistributedStore:
    def __init__(self):
        raise RuntimeError("this Mooncake is a stand-in and holds no store")
"""
MASTER = """import sys
if sys.argv[1:] == ["--version"]:
    print("mooncake_master version {version}")
else:
    sys.exit("this mooncake_master is a stand-in: only --version works")
"""


def write(path: Path, text: str, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def metadata(packages: Path, name: str, version: str) -> None:
    folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    write(folder / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    write(folder / "INSTALLER", "twin\n")


def build(path: Path, release: state.Release, python: str, source_mooncake: bool) -> None:
    if path.exists() and not (path / "twin.json").is_file() and any(path.iterdir()):
        raise SystemExit(f"{path} is not empty and no environment of the twin: it stays as it is")
    if path.exists():
        shutil.rmtree(path)
    packages = path / "lib" / "python3" / "site-packages"
    packages.mkdir(parents=True)
    # one folder for whichever Python 3 the host has
    for version in PYTHONS:
        (path / "lib" / f"python{version}").symlink_to("python3")
    (path / "lib64").symlink_to("lib")
    (path / "bin").mkdir()
    for name in ("python", "python3"):
        (path / "bin" / name).symlink_to(python)
    write(path / "pyvenv.cfg", f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n")
    write(path / "twin.json", json.dumps(vars(release), indent=2) + "\n")
    shutil.copytree(HERE / "twin", packages / "twin", ignore=shutil.ignore_patterns("__pycache__"))
    launch = "#!{python}\nfrom twin.{module} import main\n\nmain()\n"
    inside = path / "bin" / "python"
    for name, module in (("vllm", "serve"), (PROXY, "layerwise_proxy"), ("npu-smi", "npu_smi"), ("hccn_tool", "hccn")):
        write(path / "bin" / name, launch.format(python=inside, module=module), executable=True)
    # where vLLM-Ascend's sources have it
    examples = path / "examples" / "disaggregated_prefill_v1"
    examples.mkdir(parents=True)
    (examples / PROXY).symlink_to(Path("..", "..", "bin", PROXY))
    for name, version in (("vllm", release.vllm), ("vllm-ascend", release.vllm_ascend)):
        metadata(packages, name, version)
        write(packages / name.replace("-", "_") / "__init__.py", f'__version__ = "{version}"\n')
    if not source_mooncake:
        metadata(packages, "mooncake-transfer-engine-npu", release.mooncake)
    write(packages / "mooncake" / "__init__.py", "")
    write(packages / "mooncake" / "engine.py", ENGINE)
    write(packages / "mooncake" / "store.py", STORE)
    for master in (packages / "mooncake" / "mooncake_master", path / "bin" / "mooncake_master"):
        write(master, f"#!{inside}\n" + MASTER.format(version=release.mooncake), executable=True)


def equip(root: Path, release: state.Release, args: argparse.Namespace) -> None:
    """What a host with NPUs has outside the environment: tools, /etc/hccn.conf, the twin's state."""
    home = root / "usr/local/lib/mooncake-pd-twin"
    if home.exists():
        shutil.rmtree(home)
    shutil.copytree(HERE / "twin", home / "twin", ignore=shutil.ignore_patterns("__pycache__"))
    for target, module in (
        ("usr/local/bin/npu-smi", "npu_smi"),
        ("usr/local/Ascend/driver/tools/hccn_tool-twin", "hccn"),
        ("usr/local/sbin/mooncake-pd-twin-book", "book"),
    ):
        lines = f"#!{args.python}\nimport sys\n\nsys.path.insert(0, {'/usr/local/lib/mooncake-pd-twin'!r})\n"
        write(root / target, lines + f"from twin.{module} import main\n\nmain()\n", executable=True)
    write(root / "usr/local/Ascend/driver/tools/hccn_tool", book.TOOL, executable=True)
    told = {"generation": release.generation, "chips": release.chips, "address_prefix": args.address_prefix}
    told |= {"address_first": args.address_first, "server_index": args.server_index}
    write(root / state.HOST_FILE.lstrip("/"), json.dumps(told, indent=2) + "\n")
    write(root / "etc/hccn.conf", hccn.conf(told))
    write(root / "usr/local/Ascend/driver/version.info", "Version=25.5.0\n")
    write(root / "usr/local/Ascend/firmware/version.info", f"Version={hccn.Host(told).firmware}\n")
    for package, folder in (("Ascend-cann-toolkit", "ascend-toolkit"), ("Ascend-cann-nnal", "nnal/atb")):
        home = root / "usr/local/Ascend" / folder / args.cann
        name = package.removeprefix("Ascend-cann-").replace("toolkit", "ascend_toolkit")
        write(home / f"{name}_install.info", f"package_name={package}\nversion={args.cann}\n")
        write(home.parent / "set_env.sh", "")
    nodes(root / "dev", release.chips)
    book.write(root, told)


def nodes(folder: Path, chips: int) -> None:
    """Where a container may make no device nodes, files with their names and modes stand for them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*(f"davinci{chip}" for chip in range(chips)), "davinci_manager", "devmm_svm", "hisi_hdc"):
        (folder / name).touch()
        (folder / name).chmod(0o666)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vllm-ascend", required=True, metavar="RELEASE")
    parser.add_argument("--vllm", metavar="RELEASE", help="default: the numbers of --vllm-ascend")
    parser.add_argument("--mooncake", required=True, metavar="RELEASE")
    parser.add_argument("--generation", choices=sorted(state.CHIPS), default="A3")
    parser.add_argument("--chips", type=int, help="NPUs of the host; default: as many as the generation has")
    parser.add_argument("--path", type=Path, help="folder to make; hosts must see it under the same path")
    parser.add_argument("--python", default="/usr/bin/python3", help="Python 3.9 or later of the hosts")
    parser.add_argument(
        "--source-mooncake", action="store_true", help="Mooncake without package metadata, as built images have it"
    )
    parser.add_argument(
        "--host-root", type=Path, help="also write the NPU tools, /etc/hccn.conf and the state below it"
    )
    parser.add_argument("--address-prefix", default="198.18.0", help="of the NPUs' addresses in hccn.conf")
    parser.add_argument("--address-first", type=int, default=10, help="last number of the address of NPU 0")
    parser.add_argument("--server-index", type=int, default=2, help="of the host in its superpod")
    parser.add_argument("--cann", default="9.1.0", metavar="RELEASE", help="that passes for installed on the host")
    args = parser.parse_args()
    if not args.path and not args.host_root:
        parser.error("--path or --host-root is needed")
    release = state.Release.of({k: v for k, v in vars(args).items() if v is not None})
    if args.path:
        build(args.path.absolute(), release, args.python, args.source_mooncake)
    if args.host_root:
        equip(args.host_root, release, args)


if __name__ == "__main__":
    main()
