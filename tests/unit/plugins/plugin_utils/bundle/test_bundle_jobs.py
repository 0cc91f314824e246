# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what roles tell to what has to be in a bundle."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle import needs
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import (
    Job,
    NeedError,
    jobs_of,
    platform_of,
    without_user,
)

TARGET = {"distribution": "debian", "release": "12", "architecture": "aarch64", "python": "3.11.4"}
WHEELS: dict[str, Any] = {
    "kind": "wheels",
    "name": "engine",
    "python": "/usr/bin/python3",
    "requirements": ["# written by hand", "", " alpha==1 ", "beta==2"],
    "dependencies": False,
    "arguments": ["--index-url=one"],
}


def packages(**names: list[str]) -> dict[str, Any]:
    return {"kind": "packages", "names": names}


def one(*told: dict[str, Any], **target: str) -> Any:
    (job,) = jobs_of(told, platform_of({**TARGET, **target}, "h"), "h")
    return job


def test_a_request_is_what_is_asked_for_not_how() -> None:
    job = one(WHEELS)
    assert job.request["requirements"] == ["alpha==1", "beta==2"]
    assert job.folder == f"wheels/engine-debian-12-aarch64-py3.11-{job.key}"
    assert one({**WHEELS, "arguments": ["--index-url=two"], "python": "/opt/python"}).key == job.key
    assert one(WHEELS, python="3.11.9").key == job.key


@pytest.mark.parametrize(
    "other",
    [
        one({**WHEELS, "requirements": ["alpha==1"]}),
        one({**WHEELS, "dependencies": True}),
        one({**WHEELS, "constraints": ["alpha<2"]}),
        one(WHEELS, python="3.12"),
        one(WHEELS, architecture="x86_64"),
        one(WHEELS, release="13"),
    ],
)
def test_another_request_is_another_folder(other: Any) -> None:
    assert other.key != one(WHEELS).key


def test_packages_of_all_roles_are_one_request() -> None:
    job = one(
        packages(Debian=["b", "a"], RedHat=["x"]), packages(**{"debian-12": ["c"], "debian-13": ["d"]}), packages()
    )
    # what Ansible's apt module imports is among them
    assert job.request == {"names": ["a", "b", "c", "python3-apt"]}
    assert job.folder.startswith("packages/debian-12-aarch64-")


def test_who_needs_no_package_gets_no_folder_for_them() -> None:
    assert jobs_of([packages(RedHat=["x"])], platform_of(TARGET, "h"), "h") == []


@pytest.mark.parametrize(
    ("place", "git"),
    [("https://git.invalid/m.git", True), ("git@git.invalid:m.git", True), ("/srv/m", False), ("/srv/m.tar.gz", False)],
)
def test_sources_from_git_and_from_the_controller(place: str, git: bool) -> None:
    job = one({"kind": "source", "name": "mooncake", "from": place, "version": "v1", "needs": []})
    assert (job.label, job.how["git"], job.request) == ("mooncake", git, {"from": place, "version": "v1"})


def test_a_python_that_is_not_there_yet_is_told() -> None:
    told = {**platform_of(TARGET, "h"), "pythons": {"/usr/bin/python3": "3.11.2"}}
    with pytest.raises(NeedError, match=r"h: /opt/python is not there.*wheels fit engine.*bundle_target"):
        jobs_of([{**WHEELS, "python": "/opt/python"}], told, "h")


@pytest.mark.parametrize("key", list(TARGET))
def test_a_description_that_lacks_something_is_told(key: str) -> None:
    with pytest.raises(NeedError, match=rf"h: bundle_target lacks {key}\."):
        platform_of({name: value for name, value in TARGET.items() if name != key}, "h")


def test_an_unknown_distribution_needs_two_words_more() -> None:
    odd = {**TARGET, "distribution": "odd"}
    with pytest.raises(NeedError, match=r"of odd 12 nothing is known\. Mend: name glibc and family"):
        platform_of(odd, "h")
    assert platform_of({**odd, "glibc": "2.34", "family": "RedHat"}, "h")["family"] == "RedHat"


class Variables:
    def __init__(self, **hosts: dict[str, Any]) -> None:
        self._hosts = hosts

    def raw_get(self, host: str) -> dict[str, Any]:
        return self._hosts[host]


def test_every_problem_of_every_host_at_once() -> None:
    told = {**platform_of(TARGET, "h"), "pythons": {"/usr/bin/python3": "3.11.2"}}
    jobs, _platforms, problems = needs.of_hosts(
        ["good", "silent", "odd", "short"],
        Variables(
            good={"bundle_needs": [WHEELS], "bundle_platform": told},
            silent={"bundle_needs": [WHEELS], "bundle_platform": {}},
            odd={"bundle_needs": [], "bundle_platform": {**told, "family": "", "distribution": "gentoo"}},
            short={"bundle_needs": [], "bundle_platform": {"release": "12"}},
        ),
    )
    assert list(jobs) == ["good"]
    assert [problem.partition(". Mend")[0] for problem in problems] == [
        "silent: it did not answer, so nobody knows what fits it",
        "odd: gentoo is none that is known",
        "short: bundle_target lacks distribution, architecture, python",
    ]


def test_hosts_with_the_same_request_share_it() -> None:
    same, other = one(WHEELS), one({**WHEELS, "requirements": ["gamma==3"]})
    assert needs.together({"a": [same], "b": [same, other]}) == {
        same.key: (same, ["a", "b"]),
        other.key: (other, ["b"]),
    }


def test_a_token_in_an_address_is_not_shown() -> None:
    assert without_user("https://me:tiger@git.example/a.git") == "https://git.example/a.git"
    assert without_user("ssh://git@git.example/a@b.git") == "ssh://git.example/a@b.git"
    assert without_user("/srv/src/a@b") == "/srv/src/a@b"
    job = Job("source", "mooncake", {"from": "https://tiger@git.example/a.git", "version": "v1"})
    assert "tiger" not in job.what
    assert "git.example/a.git" in job.what
