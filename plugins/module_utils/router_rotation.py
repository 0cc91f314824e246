# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ways in which members of a router change: by the file that launcher and watcher of the role router obey,
and by asking vLLM-Ascend's proxy.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from ansible_collections.mooncake.pd.plugins.module_utils import router_look, router_out, systemd
from ansible_collections.mooncake.pd.plugins.module_utils.router_look import Seen
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import BROKEN, ApiError, Client, reason

Facts = Dict[str, Any]  # an instance: an element of pd_instances
LAUNCHER = "/usr/local/lib/mooncake-pd/pd_router.py"
WATCHER = "mooncake-pd-router-watch.service"
SETTLE = 2  # seconds a router has to be ready: HAProxy looks at it twice a second
START = "Mend: run playbooks/start.yml, which brings the routers up to date."


class RotationError(Exception):
    """The routers did not do what was asked; the text says which and why."""


def urls_of(instances: Sequence[Facts]) -> List[str]:
    return [url for instance in instances for url in instance["api_urls"]]


class Rotation(ABC):
    """All routers of a service. Names and URLs are those of the given instances."""

    def __init__(self, client: Client, routers: Sequence[Mapping[str, Any]], instances: Sequence[Facts]) -> None:
        self.client = client
        self.instances = instances
        self.routers = [(its["name"], router_look.address(its["address"], its["port"])) for its in routers]

    def look(self) -> List[Seen]:
        with ThreadPoolExecutor(len(self.routers)) as pool:
            return list(pool.map(lambda router: self.look_at(*router), self.routers))

    @abstractmethod
    def look_at(self, name: str, url: str) -> Seen:
        """What one router sends to now."""

    @abstractmethod
    def problems(self) -> List[str]:
        """Why nothing can be changed, beside what look() tells."""

    @abstractmethod
    def restarts(self, seen: Seen, leave: Sequence[Facts], come: Sequence[Facts]) -> bool:
        """Whether this router has to restart for it."""

    @abstractmethod
    def take_out(self, out: router_out.Out, leave: Sequence[Facts], timeout: float) -> None:
        """Until no router sends them anything new."""

    @abstractmethod
    def take_in(self, out: router_out.Out, come: Sequence[Facts], timeout: float, settle: int) -> None:
        """Until every router sends to them."""


class Watched(Rotation):
    """The routers of the role router. Only its watcher acts on them; here the file is written and waited for."""

    def __init__(self, run: systemd.Run, file: str, removable: bool, *args: Any) -> None:
        super().__init__(*args)
        self.run = run
        self.file = file
        self.removable = removable

    def look_at(self, name: str, url: str) -> Seen:
        return router_look.look(self.client, name, url)

    def problems(self) -> List[str]:
        try:
            unit = systemd.show(self.run, [WATCHER])[WATCHER]
        except systemd.SystemdError as error:
            return [f"it is not known whether {WATCHER} runs: {error}"]
        if unit.running:
            return []
        return [f"{WATCHER} does not run ({unit.ActiveState}), and nobody else restarts routers. {START}"]

    def restarts(self, seen: Seen, leave: Sequence[Facts], come: Sequence[Facts]) -> bool:
        if any(not seen.has(url) for url in urls_of(come)):
            return True
        return not self.removable and any(seen.has(url) for url in urls_of(leave))

    def take_out(self, out: router_out.Out, leave: Sequence[Facts], timeout: float) -> None:
        router_out.write(self.file, out)
        wait_until(lambda: [text for seen in self.look() for text in still_there(urls_of(leave), seen)], timeout)

    def take_in(self, out: router_out.Out, come: Sequence[Facts], timeout: float, settle: int) -> None:
        for seen in self.look():
            missed = [url for url in urls_of(come) if url in seen.by_hand]
            if missed and seen.process:
                router_look.note_removed(seen.name, seen.process, missed)
        router_out.write(self.file, out)
        command = [
            sys.executable,
            LAUNCHER,
            "wait",
            "--out",
            self.file,
            "--timeout",
            str(timeout),
            "--settle",
            str(settle),
        ]
        code, text, err = self.run(command + [router_look.runtime(name) for name, _url in self.routers])
        if code != 0:
            raise RotationError((text.strip() or err.strip() or f"it ended with code {code}").splitlines()[-1])
        missing = [f"{seen.name} lacks {url}" for seen in self.look() for url in urls_of(come) if not seen.has(url)]
        if missing:
            raise RotationError("; ".join(missing))


def still_there(urls: Sequence[str], router: Seen) -> List[str]:
    """What keeps a router from having lost these workers."""
    if router.problem:
        return [router.problem]
    return [f"{router.name} still has {url}" for url in urls if router.has(url)]


def wait_until(missing: Callable[[], List[str]], timeout: float, interval: float = 0.5) -> None:
    end = time.monotonic() + timeout
    while True:
        texts = missing()
        if not texts:
            return
        if time.monotonic() >= end:
            raise RotationError(f"not within {timeout:g} s: " + "; ".join(texts))
        time.sleep(interval)


def same(host: str, port: Any) -> str:
    """vLLM-Ascend's proxy takes these hosts for one, load_balance_proxy_server_example.py@v0.23.0."""
    return f"{host.replace('localhost', '0.0.0.0').replace('127.0.0.1', '0.0.0.0')}:{port}"


class Pulling(Rotation):
    """vLLM-Ascend's load_balance_proxy_server_example.py, v0.13.0 and newer. What is removed while any request runs is
    only isolated: it gets nothing new, stays in the list, and leaves it when no request runs at all."""

    def __init__(
        self, count_prompts: Callable[[Sequence[Facts]], Dict[str, Optional[int]]], file: str, *args: Any
    ) -> None:
        super().__init__(*args)
        self.count_prompts = count_prompts  # prompt tokens so far by name of the instance; None: not known
        self.file = file

    def post(self, router: Tuple[str, str], action: str, kind: str, urls: Sequence[str]) -> Seen:
        name, url = router
        parts = [urlsplit(its) for its in urls]
        body = {"type": kind, "instances": [f"{part.hostname}:{part.port}" for part in parts]}
        path = f"/instances/{action}"
        try:
            answer = json.loads(self.client.open(url, path, body).read())
            listed = {its: answer[f"current_{its}_instances"] for its in ("prefill", "decode")}
        except (*BROKEN, ValueError, KeyError, TypeError) as error:
            # an unknown type is answered with status 200 too
            raise ApiError(f"{url}{path} did not answer with the instances it has: {reason(error)}", error) from error
        known = {same(str(urlsplit(its).hostname), urlsplit(its).port): its for its in urls_of(self.instances)}
        seen = Seen(name, url, ready=True)
        for its, addresses in listed.items():
            keys = [same(*address.rpartition(":")[::2]) for address in addresses]
            seen.workers += [router_look.Worker(known.get(key, f"http://{key}"), its) for key in keys]
        return seen

    def requests(self, router: Tuple[str, str]) -> Optional[int]:
        """Requests that run in the proxy; None: it does not tell."""
        try:
            return int(json.loads(self.client.read(router[1], "/healthcheck"))["request_num"])
        except (ApiError, ValueError, KeyError, TypeError):
            return None

    def look_at(self, name: str, url: str) -> Seen:
        try:
            # nothing is added; there is no other way to ask for the list
            return self.post((name, url), "add", "prefill", [])
        except ApiError as error:
            return Seen(name, url, problem=str(error))

    def problems(self) -> List[str]:
        return [
            f"{url}: the proxy splits at the first colon, so it can name no IPv6 address"
            for url in urls_of(self.instances)
            if ":" in (urlsplit(url).hostname or "")
        ]

    def restarts(self, seen: Seen, leave: Sequence[Facts], come: Sequence[Facts]) -> bool:
        return False

    def take_out(self, out: router_out.Out, leave: Sequence[Facts], timeout: float) -> None:
        # who comes back may be isolated, so it stays noted until it is proven to be back
        router_out.write(self.file, {**router_out.read(self.file), **out})
        for router in self.routers:
            seen = self.look_at(*router)
            if seen.problem:
                raise RotationError(seen.problem)
            for instance in leave:
                # one that it does not have would break the thread that adds instances, @v0.23.0
                urls = [url for url in instance["api_urls"] if seen.has(url)]
                if urls:
                    self.post(router, "remove", instance["kind"], urls)

    def take_in(self, out: router_out.Out, come: Sequence[Facts], timeout: float, settle: int) -> None:
        before = router_out.read(self.file)
        counted = self.count_prompts(come)
        # It does not tell what it isolates. In v0.18.0 adding that again ends it, in v0.23.0 nothing happens then.
        isolated = {
            (router, url)
            for router in self.routers
            for seen in [self.look_at(*router)]
            for instance in come
            if instance["name"] in before
            for url in instance["api_urls"]
            if seen.has(url)
        }

        def missing() -> List[str]:
            texts = []
            now = self.count_prompts(come) if isolated else {}
            for router in self.routers:
                for instance in come:
                    seen = self.post(router, "add", instance["kind"], instance["api_urls"])
                    served = (now.get(instance["name"]) or 0) > (counted[instance["name"]] or 0)
                    for url in instance["api_urls"]:
                        if (router, url) in isolated and not served and self.requests(router) == 0:
                            # nobody minds: what is removed now is gone at once, and is added next time
                            seen = self.post(router, "remove", instance["kind"], [url])
                        if not seen.has(url):
                            isolated.discard((router, url))
                            texts.append(f"{router[0]} has not added {url} yet")
                        elif (router, url) in isolated and not served:
                            texts.append(
                                f"{router[0]} may still isolate {url}: releases such as v0.23.0 end that only when no"
                                " request runs at all (pause the traffic for some seconds, or restart the proxy)"
                            )
            return texts

        wait_until(missing, timeout)
        router_out.write(self.file, out)
