# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pure parts of the test hosts' image: package sources, recipe, command line."""

from __future__ import annotations

from ansible_collections.mooncake.pd.tests.hosts.lablib import image

DEB822 = """\
# comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://deb.example.org/debian
Suites: bookworm
Components: main
Signed-By: /etc/apt/keyrings/example.gpg

Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Components: main

Enabled: no
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
"""

LIST = """\
# deb http://archive.ubuntu.com/ubuntu noble main
deb http://archive.ubuntu.com/ubuntu noble main universe
deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://security.ubuntu.com/ubuntu noble-security main
deb-src http://archive.ubuntu.com/ubuntu noble main
deb [signed-by=/etc/apt/keyrings/vendor.gpg] https://vendor.example/apt noble main
deb https://vendor.example/apt noble stable
deb http://archive.ubuntu.com/ubuntu noble-proposed main
deb cdrom:[Ubuntu]/ noble main
deb file:/srv/mirror noble main
"""


def test_stanzas_of_the_distribution_only() -> None:
    (stanza,) = image.deb822_sources(DEB822, "bookworm")
    assert "Suites: bookworm bookworm-updates\n" in stanza
    assert "Types: deb\n" in stanza
    assert image.deb822_sources(DEB822, "sid") == []


def test_an_embedded_key_is_kept_whole() -> None:
    text = (
        "Types: deb\nURIs: http://mirror/debian\nSuites: sid\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"
    )
    (stanza,) = image.deb822_sources(text, "sid")
    assert "Signed-By: -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc" in stanza


def test_lines_of_the_distribution_only() -> None:
    assert image.one_line_sources(LIST, "noble") == [
        "deb http://archive.ubuntu.com/ubuntu noble main universe",
        "deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg]"
        " http://security.ubuntu.com/ubuntu noble-security main",
    ]


def test_recipe_changes_with_every_ingredient() -> None:
    parts = {name: "text" for name in image.PARTS}
    recipes = {
        image.recipe("bookworm", ["a"], parts),
        image.recipe("trixie", ["a"], parts),
        image.recipe("bookworm", ["b"], parts),
        image.recipe("bookworm", ["a"], {**parts, "lab-init": "other"}),
    }
    assert len(recipes) == 4
    assert image.recipe("bookworm", ["a"], parts) == image.recipe("bookworm", ["a"], dict(reversed(parts.items())))


def test_packages_are_fetched_before_the_way_out_is_taken_away() -> None:
    args = image.mmdebstrap_args("bookworm", "root.tar", ["sources.list"], "/parts")
    assert args[-3:] == ["bookworm", "root.tar", "sources.list"]
    hooks = [word for word in args if word.startswith("--customize-hook=chroot")]
    assert ["lab-packages" in hook for hook in hooks] == [True, False]
    assert all(package in hooks[0] for package in image.LATER)


def test_os_release() -> None:
    assert image.os_release('ID=debian\nVERSION_CODENAME="bookworm"\n# x=y\n') == {
        "ID": "debian",
        "VERSION_CODENAME": "bookworm",
    }
