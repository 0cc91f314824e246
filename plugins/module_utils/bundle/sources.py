# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes apt and dnf take packages from a folder alone, without a line in the host's own settings."""

from __future__ import annotations


def apt_texts(store: str, folder: str) -> dict[str, str]:
    """APT_CONFIG names the file. apt reads it first, so that the host's own apt.conf.d stays in force beside it."""
    return {
        "apt/sources.list": f"deb [trusted=yes] file:{store}/{folder} ./\n",
        "apt/apt.conf": "".join(
            f'{name} "{value}";\n'
            for name, value in (
                ("Dir::Etc::SourceList", f"{store}/apt/sources.list"),
                ("Dir::Etc::SourceParts", f"{store}/apt/none"),
                ("Dir::State::Lists", f"{store}/apt/lists"),
                ("Dir::Cache::pkgcache", ""),
                ("Dir::Cache::srcpkgcache", ""),
                ("Acquire::Languages", "none"),
                # what is brought again is other packages under the same address
                ("Acquire::Check-Valid-Until", "false"),
            )
        ),
    }


def dnf_texts(store: str, folder: str) -> dict[str, str]:
    """dnf.conf(5): reposdir and the folder of the repository as an address."""
    return {
        "dnf/dnf.conf": f"[main]\nreposdir={store}/dnf\ncachedir={store}/dnf/cache\ninstall_weak_deps=False\n",
        "dnf/mooncake-pd-bundle.repo": (
            "[mooncake-pd-bundle]\n"
            "name=mooncake.pd bundle\n"
            f"baseurl=file://{store}/{folder}\n"
            "enabled=1\n"
            # the checksums of the bundle have been checked
            "gpgcheck=0\n"
            "metadata_expire=1\n"
        ),
    }


def texts(family: str, store: str, folder: str) -> dict[str, str]:
    if not folder:
        return {}
    return apt_texts(store, folder) if family == "Debian" else dnf_texts(store, folder)
