# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mooncake_install
short_description: Install an archive of mooncake_build, or remove what it installed
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Puts the files of an archive of M(mooncake.pd.mooncake_build) below O(path), and removes those of a former archive
    that this one does not have.
  - Every file is checked against the manifest, on each call. A file that differs is replaced as a whole, so that a
    program that runs keeps the old one.
  - Files that no archive brought are never overwritten or removed. When pip installed them, the distribution is named.
  - What is installed stands in C(share/mooncake-pd/mooncake.json) below O(path).
options:
  artifact:
    description:
      - The archive on this host.
      - Required for O(state=present). It need not be there when what is installed came from the archive with this
        O(sha256) and is whole, nor in check mode.
    type: path
  sha256:
    description: SHA-256 that the archive must have. Required for O(state=present).
    type: str
  path:
    description: Folder to install below. It must be the prefix that the archive was built for.
    type: path
    required: true
  owner:
    description: Owner of the files; who runs the module when omitted.
    type: str
  group:
    description: Group of the files; that of who runs the module when omitted.
    type: str
  state:
    description: Whether the files shall be there.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
notes:
  - Folders that are empty afterwards are removed, O(path) itself is not.
seealso:
  - module: mooncake.pd.mooncake_build
"""

EXAMPLES = r"""
- name: Install Mooncake
  mooncake.pd.mooncake_install:
    artifact: /var/cache/mooncake-pd/mooncake-0.3.12.post1-debian-12-x86_64-cann8.5.1-py3.11-5d1f0c6f0a5a.tar.gz
    sha256: 0b5f7f6f7d7ec5f6d3e8a1a3f5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3
    path: /opt/mooncake-pd/mooncake
    owner: root
    group: root

- name: Remove Mooncake
  mooncake.pd.mooncake_install:
    path: /opt/mooncake-pd/mooncake
    state: absent
"""

RETURN = r"""
installed:
  description: What is installed after the module, or would be in check mode; V(null) when nothing is.
  returned: success
  type: dict
  contains:
    version:
      description: Version of Mooncake; V(null) in check mode without the archive.
      type: str
    digest:
      description: Digest of the build; V(null) in check mode without the archive.
      type: str
    sha256:
      description: SHA-256 of the archive.
      type: str
    files:
      description: Number of files and links; V(null) in check mode without the archive.
      type: int
  sample:
    version: 0.3.12.post1
    digest: 5d1f0c6f0a5a4d0cb2a1f1b3a1f7b0a7c3a7d1c9b2d0c4f8e6a5b4c3d2e1f0a9
    sha256: 0b5f7f6f7d7ec5f6d3e8a1a3f5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3
    files: 41
replaced:
  description: Paths that were written, at most 20.
  returned: success
  type: list
  elements: str
  sample: [bin/mooncake_master]
removed:
  description: Paths that were removed, at most 20.
  returned: success
  type: list
  elements: str
  sample: []
"""

import grp
import os
import pwd
from collections.abc import Mapping
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import archive
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import manifest as manifests
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.installation import (
    Change,
    Installation,
    InstallError,
    Owner,
)
from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build.source_tree import file_hash

SHOWN = 20  # paths in an answer
ARGUMENTS: dict[str, Any] = {
    "artifact": {"type": "path"},
    "sha256": {"type": "str"},
    "path": {"type": "path", "required": True},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


class Install:
    """One run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.sha256: str = (module.params["sha256"] or "").lower()
        self.artifact: str = module.params["artifact"] or ""
        self.root = os.path.normpath(module.params["path"])
        self.there = Installation(self.root, self._owner(), self._relabel)

    def _relabel(self, path: str) -> None:
        if self.module.selinux_enabled():
            self.module.set_default_selinux_context(path, False)

    def _owner(self) -> Owner:
        found = []
        for kind, number in (("owner", _user), ("group", _group)):
            name = self.module.params[kind]
            try:
                found.append(number(name) if name else None)
            except KeyError:
                if not self.module.check_mode:  # an earlier task would make it
                    raise InstallError(f"There is no {kind} {name} on this host") from None
                found.append(None)
        return Owner(*found)

    def present(self) -> None:
        if os.path.isfile(self.artifact):
            found = file_hash(self.artifact)
            if found != self.sha256:
                raise InstallError(f"{self.artifact} has the SHA-256 {found}, not {self.sha256}: copy it again")
            with archive.opened(self.artifact) as (manifest, contents):
                self._check_prefix(manifest)
                described = {**manifest, "artifact": {"sha256": self.sha256}}
                change = self._change(described)
                if not self.module.check_mode and (change or described != self.there.manifest):
                    self.there.apply(described, change, contents)
            self._end(described, change)
        former = self.there.manifest or {}
        if former.get("artifact", {}).get("sha256") == self.sha256:
            change = self._change(former)
            if not change:
                self._end(former, change)
        if not self.module.check_mode:
            raise InstallError(f"{self.artifact} is not there, and what is in {self.root} is not what it holds")
        self.module.exit_json(
            changed=True,
            installed={"version": None, "digest": None, "sha256": self.sha256, "files": None},
            replaced=[],
            removed=[],
            diff={"before": "", "after": f"files of {self.artifact}, which is not on this host yet\n"},
        )

    def _check_prefix(self, manifest: Mapping[str, Any]) -> None:
        if manifest.get("prefix") != self.root:
            raise InstallError(
                f"{self.artifact} was built for {manifest.get('prefix')}, where alone its libraries find each other: "
                f"build it with the prefix {self.root}, or install it below {manifest.get('prefix')}"
            )

    def _change(self, manifest: Mapping[str, Any]) -> Change:
        change = self.there.change_to(manifest["files"])
        foreign = self.there.foreign(manifest["files"], change)
        if foreign:
            more = [f"and {len(foreign) - SHOWN} more"] if len(foreign) > SHOWN else []
            raise InstallError("\n".join(["Nothing was changed.", *foreign[:SHOWN], *more]))
        return change

    def _end(self, manifest: Mapping[str, Any], change: Change) -> None:
        before = manifests.summary((self.there.manifest or {"files": []})["files"])
        after = manifests.summary(manifest["files"])
        replaced = [str(entry["path"]) for entry in (*change.write, *change.adjust)] + change.tighten
        shown = sorted({*replaced, *change.remove})
        self.module.exit_json(
            changed=bool(change) or manifest != self.there.manifest,
            installed={
                "version": manifest["version"],
                "digest": manifest["digest"],
                "sha256": self.sha256,
                "files": len(manifest["files"]),
            },
            replaced=replaced[:SHOWN],
            removed=change.remove[:SHOWN],
            diff={
                "before": _text(self.there.manifest, before, shown),
                "after": _text(manifest, after, shown),
                "before_header": self.root,
                "after_header": self.root,
            },
        )

    def absent(self) -> None:
        before = manifests.summary((self.there.manifest or {"files": []})["files"])
        gone = self.there.change_to([]).remove
        changed = self.there.is_there
        if changed and not self.module.check_mode:
            self.there.remove()
        text = _text(self.there.manifest, before, gone)
        diff = {"before": text, "after": "", "before_header": self.root, "after_header": self.root}
        self.module.exit_json(changed=changed, installed=None, replaced=[], removed=gone[:SHOWN], diff=diff)


def _text(manifest: Optional[Mapping[str, Any]], summary: Mapping[str, str], paths: list[str]) -> str:
    if not manifest:
        return ""
    head = f"Mooncake {manifest.get('version')} {str(manifest.get('digest'))[:12]}\n"
    return head + "".join(f"{path} {summary[path]}\n" for path in paths if path in summary)


def _user(name: str) -> int:
    return int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid


def _group(name: str) -> int:
    return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[("state", "present", ("artifact", "sha256"))],
        supports_check_mode=True,
    )
    try:
        install = Install(module)
        install.present() if module.params["state"] == "present" else install.absent()
    except (InstallError, manifests.ManifestError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
