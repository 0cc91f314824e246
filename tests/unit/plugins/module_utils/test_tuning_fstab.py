# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.tuning import fstab

LINE = st.one_of(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30).filter(
        lambda text: "/dev/shm" not in text
    ),
    st.sampled_from(
        [
            "# /dev/shm tmpfs",
            "UUID=1 / ext4 errors=remount-ro 0 1",
            "tmpfs /dev/shm/sub tmpfs size=1g 0 0",
            "tmpfs\t/tmp  tmpfs defaults 0 0 \r",
            "\udcff",
        ]
    ),
)


@given(st.lists(LINE, max_size=6), st.lists(LINE, max_size=6), st.sampled_from(["", "\n"]), st.booleans())
def test_every_other_byte_stays_and_undo_gives_the_text_back(before, after, end, there):
    ours = "none  /dev/shm\ttmpfs\tnoexec,size=1G,nodev 0 0"
    text = "\n".join([*before, *([ours] if there else []), *after]) + end
    made = fstab.edit(text, "16G")
    if there:
        assert made.text.count("size=16G") == text.count("size=16G") + 1
        assert made.text.replace("noexec,nodev,size=16G", "noexec,size=1G,nodev") == text
    else:
        assert made.text.startswith(text)
        assert made.text[len(text) :].lstrip("\n") == "tmpfs /dev/shm tmpfs size=16G 0 0\n"
    assert fstab.edit(made.text, "16G").text == made.text
    back = fstab.undo(made.text, made.before, made.line)
    assert back == text or (not there and back == text + "\n")


def test_new_line_keeps_what_the_mount_has():
    made = fstab.edit("", "50%", ["rw", "nosuid", "nodev", "inode64"])
    assert made.text == "tmpfs /dev/shm tmpfs nosuid,nodev,size=50% 0 0\n"


@pytest.mark.parametrize(
    "text", ["tmpfs /dev/shm tmpfs size=1G 0 0\nx /dev/shm tmpfs defaults\n", "/dev/sdb /dev/shm ext4 defaults 0 0\n"]
)
def test_what_is_not_clear_is_refused(text):
    with pytest.raises(fstab.FstabError, match="/dev/shm"):
        fstab.edit(text, "16G")


def test_place_may_be_written_otherwise():
    assert fstab.edit("tmpfs /dev/shm/ tmpfs rw 0 0\n", "1G").text == "tmpfs /dev/shm/ tmpfs rw,size=1G 0 0\n"
    assert fstab.edit("tmpfs /dev/\\163hm tmpfs rw\n", "1G").text == "tmpfs /dev/\\163hm tmpfs rw,size=1G\n"


def test_line_that_somebody_changed_is_left():
    made = fstab.edit("tmpfs /dev/shm tmpfs rw 0 0\n", "16G")
    assert fstab.undo(made.text.replace("16G", "8G"), made.before, made.line) is None


@pytest.mark.parametrize(
    ("given_", "option"), [("16g", "16G"), ("16GiB", "16G"), ("512 MB", "512M"), ("50%", "50%"), ("4096", "4096")]
)
def test_sizes(given_, option):
    assert fstab.size(given_) == option


@pytest.mark.parametrize("given_", ["", "0", "16X", "-1G", "1.5G", "G"])
def test_what_is_no_size(given_):
    with pytest.raises(ValueError, match="no size"):
        fstab.size(given_)


def test_a_share_is_rounded_up_to_pages() -> None:
    assert fstab.bytes_of("50%", 1001 * 4096, 4096) == 501 * 4096


@pytest.mark.parametrize(
    ("option", "bytes_"), [("1G", 1 << 30), ("5000", 8192), ("50%", 500 * 4096), ("33%", 330 * 4096)]
)
def test_the_kernel_counts_in_pages(option, bytes_):
    assert fstab.bytes_of(option, 1000 * 4096 + 100, 4096) == bytes_
