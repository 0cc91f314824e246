# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of etcd's members: which are made, which stay, and that a TLS handshake takes them."""

from __future__ import annotations

import datetime
import ssl
import stat

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.pki import certificates, folder
from ansible_collections.mooncake.pd.plugins.plugin_utils.pki.certificates import PkiError

NOW = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
MEMBERS = {"a": "192.0.2.11", "b": "192.0.2.12"}


def planned(files, members=MEMBERS, now=NOW, **more):
    told = folder.Folder(files.get, "lab", now, 365, 60, **more)
    told.want(members)
    return told


@pytest.fixture
def files():
    return dict(planned({}).files)


def later(days):
    return NOW + datetime.timedelta(days=days)


def test_all_of_it_is_made_once(files):
    assert sorted(files) == ["a.crt", "a.key", "b.crt", "b.key", "ca.crt", "ca.key"]
    again = planned(files)
    assert (again.files, again.said) == ({}, [])
    assert again.ends == {name: later(365).isoformat() for name in MEMBERS}


def test_a_renewal_keeps_keys_and_authority(files):
    due = planned(files, now=later(306))
    assert sorted(due.files) == ["a.crt", "b.crt"]
    assert due.said == ["a.crt: it ends in 59 days", "b.crt: it ends in 59 days"]
    assert planned(files | due.files, now=later(306)).files == {}
    assert planned(files, now=later(304)).files == {}


def test_a_certificate_that_does_not_fit_is_made_anew(files):
    assert planned(files, {"a": "192.0.2.99"}).said == ["a.crt: it is for other addresses"]
    assert planned(files | {"a.crt": files["b.crt"]}).said == ["a.crt: it has another key"]
    foreign = planned({}).files
    mixed = files | {name: foreign[name] for name in ("a.crt", "a.key")}
    assert planned(mixed).said == ["a.crt: it is of another authority"]
    lost = {name: text for name, text in files.items() if name != "b.key"}
    assert sorted(planned(lost).files) == ["b.crt", "b.key"]


def test_no_certificate_outlives_its_authority(files):
    made = planned(files, now=later(3640))
    assert made.ends["a"] == later(3650).isoformat()


@pytest.mark.parametrize(("name", "other"), [("ca.crt", "ca.key"), ("ca.key", "ca.crt")])
def test_half_an_authority_is_none_and_no_other_is_made(files, name, other):
    del files[name], files["a.crt"]
    with pytest.raises(PkiError, match=rf"{name} is missing beside {other}\. Mend:"):
        planned(files)


def test_without_the_key_of_the_authority_what_is_good_stays_good(files):
    del files["ca.key"]
    assert planned(files).files == {}


def test_an_authority_that_members_do_not_run_with_signs_nothing(files):
    assert planned(files, used=files["ca.crt"] + "\n").files == {}
    other = planned({}).files["ca.crt"]
    for there in (files, {}):
        with pytest.raises(PkiError, match="another authority"):
            planned(there, used=other)
    with pytest.raises(PkiError, match=r"ca\.key is not the key of ca\.crt"):
        planned({**files, "ca.key": planned({}).files["ca.key"], "a.crt": planned({}).files["a.crt"]})
    with pytest.raises(PkiError, match="has ended"):
        planned(files, now=later(3651))


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "a.crt", "a.key"])
def test_what_is_no_certificate_is_named(files, name):
    files[name] = "nonsense"
    del files["b.crt"]
    with pytest.raises(PkiError, match=rf"{name} is no "):
        planned(files)


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A handshake in memory; raises as a real one does."""
    pipes = [ssl.MemoryBIO() for _side in range(2)]
    ends = [
        server.wrap_bio(pipes[0], pipes[1], server_side=True),
        client.wrap_bio(pipes[1], pipes[0], server_hostname=name),
    ]
    for _round in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for end in ends:
        end.getpeercert()


@pytest.fixture
def contexts(files, tmp_path):
    folder.write(tmp_path / "etcd", files)
    home = tmp_path / "etcd"

    def one(purpose, member, authority="ca.crt"):
        context = ssl.create_default_context(purpose, cafile=home / authority)
        context.verify_mode = ssl.CERT_REQUIRED
        if member:
            context.load_cert_chain(home / f"{member}.crt", home / f"{member}.key")
        return context

    return home, one


def test_members_take_each_other_and_nobody_else(contexts):
    home, one = contexts
    server = one(ssl.Purpose.CLIENT_AUTH, "a")
    shake(server, one(ssl.Purpose.SERVER_AUTH, "b"), "192.0.2.11")
    with pytest.raises(ssl.SSLError):
        shake(server, one(ssl.Purpose.SERVER_AUTH, None), "192.0.2.11")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"192\.0\.2\.12"):
        shake(server, one(ssl.Purpose.SERVER_AUTH, "b"), "192.0.2.12")
    folder.write(home, {f"x{name}": text for name, text in planned({}).files.items()})
    with pytest.raises(ssl.SSLError):
        shake(server, one(ssl.Purpose.SERVER_AUTH, "xa"), "192.0.2.11")


def test_files_are_for_one_user_only(contexts):
    home, _one = contexts
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert certificates.ends(certificates.read_certificate((home / "a.crt").read_text(), "a")) == later(365)
