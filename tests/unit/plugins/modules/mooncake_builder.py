# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A builder whose cmake and compilers are small scripts that note each call, and a tree for it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

# Notes what it is asked for and does as much of CMake's work as the module looks at. Files of the folder "wish" change
# what it does.
_CMAKE = r"""#!/bin/sh
root=$(dirname "$0")/..
wish() { cat "$root/wish/$1" 2>/dev/null; }
note() { echo "$*" >> "$root/calls"; }
read_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
case $1 in
--version)
    echo "cmake version 3.25.1"
    ;;
-S)
    build=$4
    case $build in *yalantinglibs*) what=yalantinglibs ;; *) what=mooncake ;; esac
    note configure $what
    wish configure && exit 1
    for word; do
        case $word in -D*) ;; *) continue ;; esac
        name=${word%%=*} name=${name#-D} kind=BOOL
        if [ -e "$root/wish/declared" ] && ! grep -qx "$name" "$root/wish/declared"; then
            kind=UNINITIALIZED unused="$unused $name"
        fi
        echo "$name:$kind=${word#*=}"
    done > "$build/CMakeCache.txt"
    wish cache >> "$build/CMakeCache.txt"
    if [ "$unused" ] && [ $what = mooncake ]; then
        printf 'CMake Warning:\n  Manually-specified variables were not used by the project:\n\n'
        printf '    %s\n' $unused
        printf '\n\n'
    fi
    env | grep -E '^(PYTHONPATH|ASCEND_HOME_PATH|LDFLAGS|DESTDIR)=' > "$root/environment"
    printf '%s\n' "$@" > "$root/arguments"
    ;;
--build)
    shift 2
    note build "$@"
    touch "$root/building"
    while [ -e "$root/wish/hold" ]; do sleep 0.02; done
    wish build && exit 2
    exit 0
    ;;
--install)
    build=$2
    note install
    prefix=$(read_cache CMAKE_INSTALL_PREFIX)
    if [ -z "$DESTDIR" ]; then
        mkdir -p "$prefix"
        exit
    fi
    for packages in "$(dirname "$(read_cache Python3_EXECUTABLE)")"/../lib/python3*/site-packages; do
        packages=$(cd "$packages" && pwd)
    done
    package=$DESTDIR$packages/mooncake
    mkdir -p "$package" "$DESTDIR$prefix/bin"
    for path in "$package/__init__.py" "$package/engine.so" "$DESTDIR$prefix/bin/mooncake_master"; do
        basename "$path" > "$path"
    done
    chmod 766 "$package/__init__.py"
    chmod 777 "$package/engine.so" "$DESTDIR$prefix/bin/mooncake_master"
    chmod 767 "$package"
    stray=$(wish stray)
    if [ "$stray" ]; then
        mkdir -p "$DESTDIR$(dirname "$stray")"
        touch "$DESTDIR$stray"
    fi
    exit 0
    ;;
esac
"""
_COMPILER = """#!/bin/sh
case "$1" in -dump*) echo 12.2.0 ;; --version) echo "g++ (Free Software Foundation) 12.2.0" ;; *) exit 1 ;; esac
"""


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "wish").mkdir()
        (root / "bin").mkdir()
        self.program("cmake", _CMAKE)
        for name in ("gcc", "g++"):
            self.program(name, _COMPILER)
        for name in ("ninja", "make", "patch"):
            self.program(name, "#!/bin/sh\nexit 1\n")
        self.source = root / "source"
        for path in ("CMakeLists.txt", "extern/pybind11/CMakeLists.txt", "extern/yalantinglibs/CMakeLists.txt"):
            (self.source / path).parent.mkdir(parents=True, exist_ok=True)
            (self.source / path).write_text(path)
        self.prefix = root / "prefix"

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def wish(self, name: str, text: str) -> None:
        (self.root / "wish" / name).write_text(text)

    def unwish(self, name: str) -> None:
        (self.root / "wish" / name).unlink()

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def cann(self) -> Path:
        root = self.root / "cann"
        inner = root / f"{platform.machine()}-linux"
        for path in (
            "include/acl/acl_rt.h",
            *(f"lib64/lib{name}.so" for name in ("ascendcl", "llm_datadist", "metadef")),
        ):
            (inner / path).parent.mkdir(parents=True, exist_ok=True)
            (inner / path).touch()
        (inner / "ascend_toolkit_install.info").write_text("package_name=toolkit\nversion=8.5.1\n")
        return root

    @property
    def params(self) -> dict[str, Any]:
        return {
            "source": str(self.source),
            "version": "0.3.12",
            "prefix": str(self.prefix),
            "work_dir": str(self.root / "work"),
            "python": sys.executable,
            "environment": {"PATH": f"{self.root}/bin:/usr/bin:/bin", "PYTHONPATH": "/from/set_env"},
            "options": {"USE_TCP": True},
            "jobs": 3,
        }
