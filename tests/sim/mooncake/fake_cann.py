# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a root of CANN with what a build of Mooncake looks for: headers, libraries, set_env.sh and a version."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import tempfile
from pathlib import Path

LIBRARIES = {
    "ascendcl": 'extern "C" int aclrtAnswer() { return 1; }',
    "llm_datadist": "int llm_datadist_answer() { return 1; }",
    "metadef": "int metadef_answer() { return 1; }",
}
HEADERS = {
    "acl/acl.h": "#pragma once\n",
    "acl/acl_rt.h": '#pragma once\n\nextern "C" int aclrtAnswer();\n',
    "llm_datadist/llm_datadist.h": "#pragma once\n",
    "adxl/adxl_engine.h": "#pragma once\n",
}
SET_ENV = """\
export ASCEND_HOME_PATH={root}
export ASCEND_TOOLKIT_HOME={root}
export LD_LIBRARY_PATH={root}/lib64${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
export PYTHONPATH={root}/python/site-packages${{PYTHONPATH:+:$PYTHONPATH}}
export PATH={root}/bin:$PATH
"""


def make(root: Path, version: str = "8.5.1", compiler: str = "g++", arch: str | None = None) -> None:
    machine = arch or platform.machine()
    inner = root / f"{machine}-linux"
    for name, text in HEADERS.items():
        path = inner / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (inner / "lib64").mkdir(exist_ok=True)
    for folder in ("bin", "python/site-packages"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in LIBRARIES.items():
            source = Path(scratch) / f"{name}.cpp"
            source.write_text(text + "\n")
            library = inner / "lib64" / f"lib{name}.so"
            subprocess.run(
                [compiler, "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library), str(source)],
                check=True,
            )
    for name in ("include", "lib64"):
        if not (root / name).is_symlink():
            os.symlink(f"{machine}-linux/{name}", root / name)
    (inner / "ascend_toolkit_install.info").write_text(
        f"package_name=Ascend-cann-toolkit\nversion={version}\narch={machine}\nos=linux\npath={inner}\n"
    )
    (root / "set_env.sh").write_text(SET_ENV.format(root=root))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=lambda text: Path(text).resolve())
    parser.add_argument("--version", default="8.5.1")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--arch")
    given = parser.parse_args()
    make(given.root, given.version, given.compiler, given.arch)
