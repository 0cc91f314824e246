# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be written into the folder of a cluster's certificates, so that every member has a good one.

A key that is there is kept, also over a renewal: it may be encrypted, and would be written readable.
"""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ansible_collections.mooncake.pd.plugins.plugin_utils.pki import certificates
from ansible_collections.mooncake.pd.plugins.plugin_utils.pki.certificates import Authority, PkiError, Time

CA, CA_KEY = "ca.crt", "ca.key"
_CA_DAYS = 3650

# the text of a file, decrypted; None when there is no such file
Read = Callable[[str], str | None]


@dataclass
class Folder:
    """Plans only. files: name -> text of what is to be written; said: why; ends: when the certificate of a member does.

    used: the certificate of the authority that members run with, where one is known.
    """

    read: Read
    cluster: str
    now: Time
    days: int
    renew_days: int
    used: str = ""
    files: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)

    def want(self, members: Mapping[str, str]) -> None:
        """members: name -> address."""
        known = self.read(CA)
        if self.used.strip() and (known or "").strip() != self.used.strip():
            raise PkiError(
                f"the members run with another authority than {CA} here, and would not take what it signs. Mend: bring "
                "the folder back in which their certificates were made, or name it in etcd_secrets_dir."
            )
        if known and certificates.ends(certificates.read_certificate(known, CA)) <= self.now:
            raise PkiError(f"{CA} has ended. Mend: move the folder away and let all members have new certificates.")
        for member, address in members.items():
            why = self._why(member, address, known)
            if why:
                self._make(member, address)
                self.said.append(f"{member}.crt: {why}")

    def _why(self, member: str, address: str, known: str | None) -> str:
        """Why a member needs a certificate, or nothing."""
        name, key_name = f"{member}.crt", f"{member}.key"
        text, key = self.read(name), self.read(key_name)
        if text is None or known is None:
            return "it is missing" if text is None else "its authority is missing"
        certificate = certificates.read_certificate(text, name)
        self.ends[member] = certificates.ends(certificate).isoformat()
        if key is None:
            return "its key is missing"
        if not certificates.belong(certificate, certificates.read_key(key, key_name)):
            return "it has another key"
        by = certificates.read_certificate(known, CA)
        return certificates.stale(certificate, by, [address], self.now, self.renew_days)

    def _make(self, member: str, address: str) -> None:
        # none outlives the one that it is proven by
        longest = (certificates.ends(self._authority.certificate) - self.now).days
        until = self.now + datetime.timedelta(days=max(min(self.days, longest), 1))
        known = self.read(f"{member}.key")
        key = certificates.read_key(known, f"{member}.key") if known is not None else certificates.new_key()
        made = certificates.issued(self._authority, key, member, [address], (self.now, until))
        self.files[f"{member}.crt"] = certificates.certificate_text(made)
        if known is None:
            self.files[f"{member}.key"] = certificates.key_text(key)
        self.ends[member] = certificates.ends(made).isoformat()

    @cached_property
    def _authority(self) -> Authority:
        text, key_text = self.read(CA), self.read(CA_KEY)
        if text is None and key_text is None:
            until = self.now + datetime.timedelta(days=_CA_DAYS)
            fresh = certificates.authority(f"etcd of {self.cluster}", (self.now, until))
            self.files[CA] = certificates.certificate_text(fresh.certificate)
            self.files[CA_KEY] = certificates.key_text(fresh.key)
            self.said.append(f"{CA}: it is missing")
            return fresh
        if text is None or key_text is None:
            there, missing = (CA, CA_KEY) if key_text is None else (CA_KEY, CA)
            raise PkiError(
                f"{missing} is missing beside {there}. Mend: bring it back; without it no certificate can be made that "
                "the members take."
            )
        certificate, key = certificates.read_certificate(text, CA), certificates.read_key(key_text, CA_KEY)
        if not certificates.belong(certificate, key):
            raise PkiError(f"{CA_KEY} is not the key of {CA}. Mend: bring back those that belong together.")
        return Authority(certificate, key)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Only for the user who runs Ansible, and never half of a file."""
    if not files:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # the authority last: as long as it is not there, members' certificates are made anew
    for name in sorted(files, key=lambda name: name in (CA, CA_KEY)):
        handle, fresh = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                os.fchmod(handle, 0o600)
                file.write(files[name])
            os.replace(fresh, folder / name)
        except BaseException:
            os.unlink(fresh)
            raise
