# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Find out what of a host decides whether prefill/decode services run well on it
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Reads kernel, memory, huge pages, limits, file systems, clock, network, names, control groups, programs and what
    already runs. It judges nothing.
  - The limits are those that a unit of systemd really gets, found out with a trial unit
    (C(systemd-run --wait --collect)) that prints them and is gone at once.
  - Connects to the planned ports of the other hosts, all at once, and closes each connection with a reset. Nothing is
    sent.
  - Changes nothing, and never waits long for anybody. What could not be found out is V(null), or its list is
    incomplete, and stands in RV(host.unknown) with the reason.
options:
  user:
    description:
      - User of the services, for the limits and for the access to O(paths). V(nobody) takes its place in the trial when
        there is no such user.
    type: str
    default: nobody
  unit:
    description:
      - Name of the trial unit. Drop-ins of its prefix (C(mooncake-pd-.service.d)) count for it as they do for the
        services.
    type: str
    default: mooncake-pd-preflight.service
  unit_properties:
    description:
      - Settings of the section Service for the trial unit, such as C(LimitMEMLOCK). A list repeats the key, V(null)
        leaves it out.
    type: dict
    default: {}
  units:
    description: Units whose state is wanted.
    type: list
    elements: str
    default: []
  paths:
    description: Files and folders that the services need.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The path. It need not exist.
        type: path
        required: true
      purpose:
        description: What it is for. It is returned as it is.
        type: str
        required: true
      user:
        description: Who has to read and write it; O(user) by default.
        type: str
  names:
    description: Names of hosts to resolve.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The name.
        type: str
        required: true
      address:
        description: The planned address. It is returned as it is.
        type: str
        required: true
  source:
    description:
      - Planned address of this host. The connects to peers are made from it; empty leaves the choice to the kernel.
    type: str
    default: ""
  peers:
    description: The other hosts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the host.
        type: str
        required: true
      address:
        description: Its IP address.
        type: str
        required: true
      ports:
        description: TCP ports to connect to, by what they are for; the value is one port or a list of them.
        type: dict
        default: {}
  planned_peers:
    description:
      - Hosts of the plan that come after O(peers). The controller takes their addresses and ports from their
        C(pd_host), those that the run leaves out included.
      - The entry C(peers) of RV(host.unknown) tells which of them have no plan.
    type: list
    elements: str
    default: []
  peer_timeout:
    description: Seconds that all connects together may take.
    type: float
    default: 2
  settings:
    description: Anything. It is returned as it is, for who judges the facts.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)). Otherwise there is no trial unit, and other users' access and processes stay unknown.
  - Values of environment variables are returned only of proxy variables (without credentials) and of those that engines
    and their libraries read (C(LD_), C(ASCEND), C(HCCL), C(MC_), C(GLOO), C(TP_SOCKET), C(NCCL), C(VLLM)), and
    never of names with C(KEY), C(TOKEN), C(SECRET) or C(PASS).
"""

EXAMPLES = r"""
- name: Look at the host
  mooncake.pd.host_info:
    user: mooncake
    unit_properties:
      LimitMEMLOCK: infinity
    units: "{{ pd_host.processes | map(attribute='unit.name') }}"
    paths:
      - {path: /data/models/model, purpose: model}
      - {path: /var/log/mooncake-pd, purpose: log}
  become: true
  register: look

- name: See whether the other hosts can be reached from the planned address
  mooncake.pd.host_info:
    source: 192.0.2.11
    peers:
      - name: d1
        address: 192.0.2.21
        ports: {api: 8200, kv: [22000, 22015]}
    names:
      - {name: d1, address: 192.0.2.21}
  become: true
  register: look

- name: Show what could not be found out
  ansible.builtin.debug:
    var: look.host.unknown
"""

RETURN = r"""
host:
  description: The facts. Sizes are in bytes, times in seconds.
  returned: always
  type: dict
  contains:
    settings:
      description: O(settings) as it was given.
      type: dict
    kernel:
      description: The running kernel.
      type: dict
      contains:
        release:
          description: As C(uname -r) prints it.
          type: str
        machine:
          description: V(aarch64), V(x86_64) ...
          type: str
        page_size:
          description: Bytes of a page of memory.
          type: int
        uptime:
          description: Seconds since the start.
          type: float
        boot_id:
          description: Differs after each start.
          type: str
        cmdline:
          description: Its command line, without values of what looks like a secret.
          type: str
        numa_balancing:
          description: Whether it moves memory between nodes by itself; V(null) where it cannot.
          type: int
    os:
      description: The distribution, from C(os-release).
      type: dict
      contains:
        id:
          description: V(openEuler), V(euleros), V(debian) ...
          type: str
        version_id:
          description: Its version; V(null) where a distribution has none.
          type: str
        like:
          description: Distributions it is made from.
          type: list
          elements: str
        pretty:
          description: Name and version for people.
          type: str
    cpus:
      description: Processors that are online.
      type: int
    numa:
      description: NUMA nodes. Empty where the kernel knows of none.
      type: list
      elements: dict
      contains:
        node:
          description: Number of the node.
          type: int
        cpus:
          description: Its processors; V(0) for memory alone.
          type: int
        memory_total:
          description: Bytes.
          type: int
        memory_free:
          description: Bytes that nobody uses, not even as cache.
          type: int
    memory:
      description: Memory in bytes.
      type: dict
      contains:
        total:
          description: Bytes of memory.
          type: int
        available:
          description: Bytes that programs can have without swapping.
          type: int
        swap_total:
          description: Bytes of swap.
          type: int
        swap_free:
          description: Bytes of swap that are free.
          type: int
    hugepages:
      description: Huge pages.
      type: dict
      contains:
        default_size:
          description: Bytes of a huge page when nobody names a size; V(null) where the kernel has none.
          type: int
        sizes:
          description: The pool of each size.
          type: list
          elements: dict
          contains:
            size:
              description: Bytes of a page.
              type: int
            total:
              description: Pages in the pool.
              type: int
            free:
              description: Pages that nobody uses.
              type: int
            reserved:
              description: Free pages that are promised to somebody.
              type: int
            surplus:
              description: Pages above the size of the pool.
              type: int
            nodes:
              description: The same for each NUMA node.
              type: list
              elements: dict
              contains:
                node:
                  description: Number of the node.
                  type: int
                total:
                  description: Pages.
                  type: int
                free:
                  description: Pages that nobody uses.
                  type: int
        asked:
          description: How many were asked for, in the order in which it is applied. The last one of a size counts.
          type: list
          elements: dict
          contains:
            size:
              description: Bytes of a page; V(null) where the kernel has no huge pages.
              type: int
            pages:
              description: Pages.
              type: int
            where:
              description: V(/proc/cmdline) or a file of C(sysctl.d).
              type: str
    transparent_hugepages:
      description: V(always), V(madvise) or V(never); V(null) where the kernel has none.
      type: str
    sysctl:
      description:
        - Keys of the kernel as text, with one blank between several numbers. A key that the kernel lacks is not there.
      type: dict
    limits:
      description: What a unit of the services really gets; V(-1) is unlimited.
      type: dict
      contains:
        unit:
          description: Name of the trial unit.
          type: str
        user:
          description: User it ran as.
          type: str
        memlock:
          description: Locked memory in bytes.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        nofile:
          description: Open files.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        nproc:
          description: Processes and threads of the user.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        core:
          description: Core dump in bytes.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        stack:
          description: Stack in bytes.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        environment:
          description: Its environment variables. V(null) stands for a value that is not shown (see the notes).
          type: dict
    units:
      description: State of each of O(units), by name.
      type: dict
      contains:
        load_state:
          description: V(loaded), V(not-found), V(masked) ...
          type: str
        active_state:
          description: V(active), V(inactive), V(failed) ...
          type: str
        sub_state:
          description: V(running), V(dead), V(auto-restart) ...
          type: str
        result:
          description: V(success), or how it ended.
          type: str
        n_restarts:
          description: How often systemd has restarted it by itself.
          type: int
        main_pid:
          description: Its main process; V(0) for none.
          type: int
        started:
          description: When its main process was started, in seconds since 1970; V(null) when none runs.
          type: float
        memlock:
          description: Its limit of locked memory in bytes; V(null) for a unit that is not there.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        nofile:
          description: Its limit of open files; V(null) for a unit that is not there.
          type: dict
          contains:
            soft:
              description: What a process has.
              type: int
            hard:
              description: What it may raise that to.
              type: int
        drop_ins:
          description: Its drop-ins.
          type: list
          elements: str
        needs_reload:
          description: Its files were changed since systemd has read them.
          type: bool
        fragment:
          description: Its unit file; V(null) where it has none.
          type: str
        environment_names:
          description: Names of its environment variables, and of those of its process.
          type: list
          elements: str
        process:
          description: Limits of its main process; V(null) when none runs.
          type: dict
          contains:
            memlock:
              description: Locked memory in bytes.
              type: dict
              contains:
                soft:
                  description: What a process has.
                  type: int
                hard:
                  description: What it may raise that to.
                  type: int
            nofile:
              description: Open files.
              type: dict
              contains:
                soft:
                  description: What a process has.
                  type: int
                hard:
                  description: What it may raise that to.
                  type: int
        oom_kills:
          description:
            - Processes of it that the kernel killed for memory. V(null) when it does not run, or the kernel does not
              count them, which it does only where the memory of its control group is accounted.
          type: int
        pool_bytes:
          description:
            - What each of its workers brings into a KV pool, segment and buffer, as its unit file and the
              C(mooncake.json) that it names say. V(null) where it brings none, does not run, or does not tell.
          type: int
    shm:
      description: C(/dev/shm).
      type: dict
      contains:
        total:
          description: Bytes.
          type: int
        free:
          description: Bytes.
          type: int
        inodes_free:
          description: Files that can still be made; V(-1) where they are not counted.
          type: int
        options:
          description: Options of its mount.
          type: list
          elements: str
        segments:
          description: The 50 biggest files in it.
          type: list
          elements: dict
          contains:
            name:
              description: Its name.
              type: str
            size:
              description: Bytes that it takes (it may be longer than what was written to it).
              type: int
            owner:
              description: User that owns it.
              type: str
            age:
              description: Seconds since it was changed.
              type: int
            open:
              description: Whether a process has it open or mapped.
              type: bool
        segments_total:
          description: All of them.
          type: dict
          contains:
            count:
              description: How many.
              type: int
            size:
              description: Bytes that they take.
              type: int
            unused_count:
              description: How many are open in no process.
              type: int
            unused_size:
              description: Bytes that those take.
              type: int
    tmp:
      description: C(/tmp).
      type: dict
      contains:
        total:
          description: Bytes.
          type: int
        free:
          description: Bytes.
          type: int
    paths:
      description: O(paths) in their order.
      type: list
      elements: dict
      contains:
        path:
          description: The path.
          type: str
        purpose:
          description: What it is for.
          type: str
        type:
          description: V(file), V(directory), V(other) or V(missing).
          type: str
        nearest:
          description: The path, or the innermost parent that exists. All that follows is about it.
          type: str
        filesystem:
          description: V(ext4), V(xfs), V(nfs4) ...
          type: str
        mount:
          description: Where that is mounted.
          type: str
        total:
          description: Bytes of it.
          type: int
        free:
          description: Bytes that users can have.
          type: int
        inodes_free:
          description: Files that can still be made; V(-1) where they are not counted.
          type: int
        read_only:
          description: Whether it is mounted read-only.
          type: bool
        owner:
          description: User that owns it.
          type: str
        mode:
          description: Octal, V(0755).
          type: str
        readable:
          description: Whether the user may read it (and enter it); V(null) when there is no such user.
          type: bool
        writable:
          description: Whether the user may write it (and enter it); V(null) when there is no such user.
          type: bool
    clock:
      description: The clock.
      type: dict
      contains:
        epoch:
          description: Seconds since 1970.
          type: float
        synchronized:
          description: Whether the kernel takes it for synchronized.
          type: bool
        timezone:
          description:
            - V(Etc/UTC), V(Asia/Shanghai) ... Where C(/etc/localtime) is a copy and nothing else names the zone, its
              rule such as V(CST-8).
          type: str
        controller:
          description: The clock of the controller.
          type: dict
          contains:
            sent:
              description: Seconds since 1970 before the module was sent.
              type: float
            received:
              description: Seconds since 1970 after its answer.
              type: float
    interfaces:
      description: Network interfaces of this network namespace.
      type: list
      elements: dict
      contains:
        name:
          description: Its name.
          type: str
        up:
          description: Whether it is switched on.
          type: bool
        carrier:
          description: Whether it has a link; V(null) when it is off.
          type: bool
        mtu:
          description: Bytes.
          type: int
        mac:
          description: Hardware address.
          type: str
        speed:
          description: Mb/s; V(null) where it has none or no link.
          type: int
        kind:
          description: V(physical), V(bond), V(bridge), V(vlan), V(veth), V(loopback), V(tun) or V(other).
          type: str
        master:
          description: Bond or bridge that it belongs to; V(null) for none.
          type: str
        members:
          description: Interfaces that belong to it.
          type: list
          elements: str
        driver:
          description: Driver of its device; V(null) without a device.
          type: str
        numa_node:
          description: NUMA node of its device; V(null) where there is none.
          type: int
        addresses:
          description: Its addresses.
          type: list
          elements: dict
          contains:
            address:
              description: The address.
              type: str
            prefix:
              description: Length of the prefix.
              type: int
            family:
              description: V(4) or V(6).
              type: int
            scope:
              description: V(global), V(link), V(host) or V(site).
              type: str
    default_routes:
      description: Default routes of the main table, the best of each family first.
      type: list
      elements: dict
      contains:
        interface:
          description: Name of the interface.
          type: str
        gateway:
          description: The gateway; V(null) for a route without one.
          type: str
        metric:
          description: The least is taken.
          type: int
        family:
          description: V(4) or V(6).
          type: int
    peers:
      description: O(peers) and O(planned_peers) in their order.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the host.
          type: str
        address:
          description: Its address.
          type: str
        source:
          description: Address that the kernel would send from; V(null) when there is no route.
          type: str
        interface:
          description: Interface that it would send through; V(null) when there is no route.
          type: str
        gateway:
          description: Gateway; V(null) for a direct neighbour.
          type: str
        mtu:
          description: Bytes that fit on that way, as this host knows it; V(null) when there is no route.
          type: int
        ports:
          description: Its ports.
          type: list
          elements: dict
          contains:
            port:
              description: The port.
              type: int
            purpose:
              description: What it is for.
              type: str
            state:
              description:
                - V(open), V(closed) (refused, so the way is open and nobody listens), V(filtered) (no answer in time,
                  or rejected with an ICMP message, as firewalls do) or V(unreachable); V(null) when it was not tried,
                  for the time was over.
                - A firewall that rejects with a TCP reset looks like a host on which nobody listens, and so does any
                  rejection where this host has Linux before 5.8, which keeps no ICMP messages for TCP.
              type: str
            error:
              description: What the connect said; V(null) for an open port, and for one that was not tried.
              type: str
    names:
      description: Names of hosts.
      type: dict
      contains:
        hostname:
          description: As C(uname -n) prints it.
          type: str
        fqdn:
          description: The full name, as far as it resolves.
          type: str
        own:
          description: Addresses that its own name resolves to on this host.
          type: list
          elements: str
        resolved:
          description: O(names) in their order.
          type: list
          elements: dict
          contains:
            name:
              description: The name.
              type: str
            address:
              description: The planned address.
              type: str
            addresses:
              description: What it resolves to on this host.
              type: list
              elements: str
            error:
              description: Why it resolves to nothing; V(null) when it does.
              type: str
        hosts_loopback:
          description: Names of this host that stand at V(127.*) in C(/etc/hosts).
          type: list
          elements: str
    proxies:
      description: Proxy variables.
      type: list
      elements: dict
      contains:
        where:
          description: V(unit) (the trial unit had it), or a file.
          type: str
        name:
          description: Name of the variable.
          type: str
        value:
          description: Its value, without credentials.
          type: str
    systemd:
      description: The manager of the services.
      type: dict
      contains:
        version:
          description: Its version.
          type: int
        state:
          description: V(running), V(degraded), V(starting), V(offline) ...
          type: str
        failed:
          description: Units that have failed.
          type: list
          elements: str
        pid1:
          description: Name of the first process.
          type: str
    cgroup:
      description: Control groups.
      type: dict
      contains:
        version:
          description: V(1) or V(2).
          type: int
        memory_max:
          description: Bytes that all services together may have; V(-1) is unlimited.
          type: int
    containers:
      description: Containers.
      type: dict
      contains:
        inside:
          description: What this host itself is run by (V(docker), V(podman), V(lxc) ...); V(null) for a machine.
          type: str
        runtimes:
          description: Container runtimes that are installed.
          type: list
          elements: dict
          contains:
            name:
              description: V(docker), V(podman) or V(containerd).
              type: str
            socket:
              description: Its socket; V(null) where there is none.
              type: str
            version:
              description: Version of its program.
              type: str
    libc:
      description: Libraries of C and C++.
      type: dict
      contains:
        name:
          description: V(glibc).
          type: str
        version:
          description: Its version.
          type: str
        libstdcxx:
          description: C(libstdc++.so.6); V(null) where it is not installed.
          type: dict
          contains:
            path:
              description: The library.
              type: str
            newest:
              description: Highest of its versions C(GLIBCXX_*).
              type: str
    pythons:
      description: Python interpreters in the usual places.
      type: list
      elements: dict
      contains:
        path:
          description: The interpreter.
          type: str
        version:
          description: Its version.
          type: str
    tools:
      description: Programs by name; V(null) for one that is not installed.
      type: dict
      contains:
        path:
          description: The program.
          type: str
        version:
          description:
            - Its version; V(null) for C(numactl), C(ibv_devinfo), C(ib_write_bw) and C(rping), which are not asked.
          type: str
        flavour:
          description: V(openmpi), V(mpich) or V(intel); of C(mpicc) and C(mpirun) only.
          type: str
    libraries:
      description: Libraries that engines load; V(null) for one that is not installed.
      type: dict
      contains:
        jemalloc:
          description: C(libjemalloc.so.2)
          type: str
        libibverbs:
          description: C(libibverbs.so.1)
          type: str
        libnuma:
          description: C(libnuma.so.1)
          type: str
    engines:
      description: Processes that look like engines, their workers, masters, or clients of the store.
      type: list
      elements: dict
      contains:
        pid:
          description: Number of the process.
          type: int
        command:
          description: Its command line, shortened, without secrets.
          type: str
        user:
          description: Its user.
          type: str
        unit:
          description: Its unit; V(null) for none.
          type: str
        container:
          description: Its container; V(null) for none.
          type: str
        age:
          description: Seconds since it was started.
          type: int
        title:
          description: Its short name.
          type: str
    security:
      description: What may be in the way.
      type: dict
      contains:
        selinux:
          description: V(enforcing), V(permissive) or V(disabled).
          type: str
        apparmor:
          description: Whether it is enabled.
          type: bool
        firewall:
          description: Those of V(firewalld), V(ufw), V(nftables) that are active.
          type: list
          elements: str
    kubernetes:
      description: Processes of Kubernetes.
      type: dict
      contains:
        kubelet:
          description: Whether it runs.
          type: bool
        kube_proxy:
          description: Whether it runs.
          type: bool
    governor:
      description: Frequency governors with the number of their processors. Empty where there are none.
      type: dict
    modules:
      description: Kernel modules that are loaded or built in, of those that matter for RDMA, NPUs and networks.
      type: list
      elements: str
    unknown:
      description: What could not be found out.
      type: list
      elements: dict
      contains:
        what:
          description: Path of the value below RV(host), or the beginning of it; the number for an element of a list.
          type: str
        why:
          description: Why.
          type: str
        raw:
          description: What was said, at most 2000 characters.
          type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.host.gather import gather
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look


def _list(options: dict[str, dict[str, object]]) -> dict[str, object]:
    return {"type": "list", "elements": "dict", "default": [], "options": options}


def _numbers(given: Any) -> list[int]:
    return [int(port) for port in (given if isinstance(given, list) else [given])]


def main() -> None:
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "default": "nobody"},
            "unit": {"type": "str", "default": "mooncake-pd-preflight.service"},
            "unit_properties": {"type": "dict", "default": {}},
            "units": {"type": "list", "elements": "str", "default": []},
            "paths": _list({"path": {"type": "path", "required": True}, "purpose": {**text}, "user": {"type": "str"}}),
            "names": _list({"name": {**text}, "address": {**text}}),
            "source": {"type": "str", "default": ""},
            "peers": _list({"name": {**text}, "address": {**text}, "ports": {"type": "dict", "default": {}}}),
            "planned_peers": {"type": "list", "elements": "str", "default": []},
            "peer_timeout": {"type": "float", "default": 2},
            "settings": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    if module.params.pop("planned_peers"):
        module.fail_json(msg="planned_peers needs the action plugin of this module, which was not run")
    for peer in module.params["peers"]:
        try:
            peer["ports"] = {purpose: _numbers(given) for purpose, given in peer["ports"].items()}
        except (TypeError, ValueError):
            module.fail_json(msg=f"peers: the ports of {peer['name']} are not all numbers: {peer['ports']!r}")
    module.exit_json(changed=False, host=gather(Look(), module.params))


if __name__ == "__main__":
    main()
