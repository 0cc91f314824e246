# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: reads topology.yml and hands the plan to Ansible."""

from __future__ import annotations

DOCUMENTATION = r"""
name: topology
short_description: Plan a prefill/decode-disaggregated cluster from one file
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Reads a file that ends in C(topology.yml) or C(topology.yaml) and plans the cluster that it describes, that
    is every process with its command, environment, ports and proof of readiness. No host is contacted.
  - Everything that is wrong is reported at once, each finding with its line, what it would break and how to
    mend it.
  - Groups are C(pd) (all hosts), C(engine), C(prefill), C(decode), C(router), C(master), C(etcd), C(store)
    and C(instance_<name>).
  - Every host gets the variable C(pd_host) with its processes, the group C(pd) gets C(pd_cluster), and the group
    C(router) gets C(pd_instances). Look at
    them with C(ansible-inventory --graph) and C(ansible-inventory --host <name>).
  - Settings that do not shape the cluster, such as paths and users, are ordinary variables beside this file.
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [mooncake.pd.topology]
  name:
    description: Name of the cluster. Descriptions of units and reports carry it.
    type: str
    required: true
  engine:
    description: What computes.
    type: dict
    required: true
    suboptions:
      kind:
        description:
          - V(vllm_cpu) is upstream vLLM on CPU, one process an instance.
          - V(vllm_ascend) is vLLM with vLLM-Ascend on NPUs. O(engine.data_parallel) says how its ranks run.
        type: str
        required: true
        choices: [vllm_cpu, vllm_ascend]
      version:
        description: >-
          Release of the engine on all hosts, in quotes. Arguments, ports, variables and log lines depend on it.
          One that is newer than the plan knows is planned like the newest that it knows, with a warning.
        type: str
        required: true
      data_parallel:
        description:
          - How the data-parallel ranks of V(vllm_ascend) run.
          - V(external) is one process for each rank, each with its own API port and devices. The router balances
            over all of them.
          - V(internal) is one process for each host. The first host of an instance has the one API of the
            instance, the others are headless.
        type: str
        choices: [external, internal]
        default: external
  connector:
    description: How KV moves from prefill to decode.
    type: dict
    required: true
    suboptions:
      name:
        description:
          - For V(vllm_cpu) from 0.32.0 on C(MooncakeConnector), in which decode pulls and prefill listens on
            O(prefill[].bootstrap_port).
          - For V(vllm_ascend) from 0.10.1rc1 on C(MooncakeConnectorV1), and from 0.20.2rc1 on
            C(MooncakeHybridConnector) for hybrid models. Decode pulls and prefill listens on
            O(prefill[].kv_port). Up to 0.11.0 also C(MooncakeConnector), the same one by its module path.
          - For V(vllm_ascend) from 0.11.0rc1 on C(MooncakeLayerwiseConnector), in which prefill pushes layer by
            layer and decode listens on O(decode[].kv_port).
        type: str
        required: true
      protocol:
        description: >-
          Transport of the KV. C(MooncakeConnector) takes V(tcp), its default here, or V(rdma). The connectors
          of V(vllm_ascend) take V(ascend).
        type: str
        choices: [tcp, rdma, ascend]
      extra_config:
        description: >-
          For V(vllm_ascend), more keys of C(kv_connector_extra_config). The sizes of both sides are the plan's;
          other keys of C(prefill) and C(decode), such as C(pp_layer_partition), may stand here.
        type: dict
        default: {}
      also:
        description: >-
          Connectors that stand beside this one, such as that of a KV pool, see O(store). The plan writes a
          C(MultiConnector) then.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: >-
              For V(vllm_cpu) C(MooncakeStoreConnector). For V(vllm_ascend)
              C(AscendStoreConnector), C(MooncakeConnectorStoreV1), C(UCMConnector), C(LMCacheAscendConnector),
              C(SimpleCPUOffloadConnector), C(RecomputeCPUOffloadConnector) or C(OffloadingConnector), as far as
              the release has it.
            type: str
            required: true
          side:
            description: The side that has it.
            type: str
            choices: [both, prefill, decode]
            default: both
          extra_config:
            description: >-
              Its C(kv_connector_extra_config). C(lookup_rpc_port) of a pool is the plan's, unless it is given.
            type: dict
            default: {}
  mooncake:
    description: Mooncake on all hosts.
    type: dict
    required: true
    suboptions:
      version:
        description: >-
          Release, in quotes. On NPUs it decides the ports that transfers draw from, that is 1000 for each
          device from 20000 on up to 0.3.7.post2, and 100 for each device since 0.3.8.
        type: str
        required: true
  model:
    description: What is served.
    type: dict
    required: true
    suboptions:
      path:
        description: Folder of the model on every prefill and decode host.
        type: str
        required: true
      served_name:
        description: Name by which clients ask for the model.
        type: str
        required: true
      features:
        description: >-
          What the model is like, as far as it decides what can be planned, for instance V(moe) for a mixture of
          experts, without which there is no data parallelism. V(hybrid) has Mamba or linear attention layers,
          V(sparse) sparse attention, V(c8) an eight-bit KV cache.
        type: list
        elements: str
        choices: [dense, moe, mla, hybrid, sparse, c8]
        default: []
  hosts:
    description: The machines. Each key is the name of a host in the inventory, in quotes if it is a number.
    type: dict
    required: true
    suboptions:
      <name>:
        description: One machine.
        type: dict
        suboptions:
          address:
            description:
              - IPv4 address that processes bind and that the other hosts reach.
              - Also becomes C(ansible_host), unless O(hosts.<name>.vars) sets C(ansible_host) or
                C(ansible_connection).
            type: str
            required: true
          interface:
            description: >-
              Network interface that has the address. Sets C(GLOO_SOCKET_IFNAME), and with V(vllm_ascend) also
              C(TP_SOCKET_IFNAME) and C(HCCL_SOCKET_IFNAME). Without it the libraries choose.
            type: str
          generation:
            description: Generation of its NPUs, when it is not that of O(hardware).
            type: str
            choices: [A2, A3, A5]
          chips:
            description: Number of its NPUs, when it is not that of O(hardware).
            type: int
          vars:
            description: >-
              More variables of the host for Ansible, such as C(ansible_user). Vault values and templates are
              kept.
            type: dict
            default: {}
  prefill: &instances
    description: >-
      The prefill instances. An instance is one engine that a router sends requests to, or with O(prefill[].dp)
      above 1 one group of such engines.
    type: list
    elements: dict
    required: true
    suboptions: &instance
      name:
        description: >-
          Unique name of letters, digits and underscores. The unit is C(mooncake-pd-<name>.service); of several
          processes C(mooncake-pd-<name>-<number>.service), the number being the rank, or with internal data
          parallelism that of the host.
        type: str
        required: true
      host:
        description: Host that runs it, a key of O(hosts). Either this or O(prefill[].hosts) is required.
        type: str
      hosts:
        description: >-
          For V(vllm_ascend), several hosts that run it, with the same number of ranks on each. The first is the
          head, where the ranks meet.
        type: list
        elements: str
        default: []
      data_parallel:
        description: How the ranks run, when it is not as O(engine.data_parallel) says.
        type: str
        choices: [external, internal]
      tp:
        description: >-
          Tensor-parallel size. The one of prefill has to be a multiple of the one of decode; for V(vllm_cpu)
          the other way round works too.
        type: int
        default: 1
      dp:
        description: >-
          Data-parallel size, for V(vllm_ascend) only, a multiple of the hosts. Only mixture-of-experts models can
          have more than 1; give a dense model more instances.
        type: int
        default: 1
      pp:
        description: Pipeline-parallel size, for prefill instances of V(vllm_ascend) from which decode pulls.
        type: int
        default: 1
      pcp:
        description: Prefill-context-parallel size, for prefill instances of V(vllm_ascend). Not together with pp.
        type: int
        default: 1
      dcp:
        description: Decode-context-parallel size, for V(vllm_ascend). It divides tp, whose workers it reuses.
        type: int
        default: 1
      devices:
        description: >-
          For V(vllm_ascend), the physical ids of its NPUs on each of its hosts, tp x pp x pcp for each rank there,
          in the order of the ranks. By default they count from 0. Instances on one host share none.
        type: list
        elements: int
      api_port:
        description: >-
          Port of the API, or of the first rank's on each host; the others follow. By default 8100 for prefill
          and 8200 for decode, and with V(vllm_ascend) plus the lowest device of the process, so that instances
          on one host never clash.
        type: int
      bootstrap_port:
        description: >-
          For C(MooncakeConnector) of V(vllm_cpu), the port of a prefill instance where decode asks for its
          peers. By default 8998.
        type: int
      kv_port:
        description:
          - For V(vllm_ascend), the first of the ports on which the side that binds listens, one for each worker.
            They are counted by the rank in the whole group (on each host anew up to 0.11.0rc0), so a host
            whose first rank is I(r) begins at kv_port + I(r) x workers of a rank. The other side's value is
            written but claims nothing.
          - By default 22000 + 256 x the lowest device, and 61000 + 256 x the lowest device where transfers draw
            from there, as Mooncake up to 0.3.7.post2 does. That depends on nothing but the instance itself, so
            it stays when other instances come or go, and it is clear of all ranges that are drawn from at random.
        type: int
      dp_rpc_port:
        description: >-
          For V(vllm_ascend) with dp above 1, the port at which the ranks of the group meet. By default 29550 plus
          the lowest device, or 17500 plus the lowest device where transfers draw from there.
        type: int
      group_port:
        description:
          - For V(vllm_ascend) and several hosts, the port of the first host at which the supervisors of the others
            report. They keep the units of the instance together, as ranks that lost one have to start anew.
            By default 17600 plus the lowest device, or 29650 plus the lowest device where transfers draw from there.
          - Whoever can connect to it from the address of a host of the instance can have its units restarted. Keep it
            as closed to others as O(prefill[].dp_rpc_port), which asks for no key either.
        type: int
      group_grace:
        description: >-
          For V(vllm_ascend) and several hosts, the seconds without contact to one of them after which the units of
          the others are stopped. They start again when it is back. 30 by default, at least 5.
        type: int
      engine_id:
        description: >-
          For V(vllm_ascend), the C(engine_id) of the transfer configuration. Up to 0.11.0 it has to be unique, and
          is the instance's name by default; later the engine makes it so itself.
        type: str
      kv_load_failure_policy:
        description: >-
          What decode does with a request whose KV cannot be fetched. V(fail) ends it; V(recompute) computes the
          prompt again, which hybrid models cannot. Without it the engine decides; from 0.13.0 to 0.16 it computes
          again, since 0.17.0 it fails. Before 0.13.0 there is no such key.
        type: str
        choices: [fail, recompute]
      args:
        description: >-
          More arguments of C(vllm serve), behind O(engine_args), spelt in full. What the plan writes itself is
          refused here, for instance C(--port), and so is what breaks it, for instance C(--ssl-keyfile).
        type: list
        elements: str
        default: []
      environment:
        description: More environment variables. They win over O(engine_environment).
        type: dict
        default: {}
  decode:
    description: The decode instances. They have the same keys as O(prefill).
    type: list
    elements: dict
    required: true
    suboptions: *instance
  hardware:
    description: >-
      The NPUs of the hosts. With it the plan refuses devices that a host does not have.
    type: dict
    suboptions:
      generation:
        description: >-
          V(A2) has 8 NPUs in a host, V(A3) 16 (two dies in each module, and each counts), V(A5) 8.
        type: str
        required: true
        choices: [A2, A3, A5]
      chips:
        description: Number of NPUs in a host, when it is not that of the generation.
        type: int
  engine_args:
    description: More arguments of C(vllm serve) for all instances.
    type: list
    elements: str
    default: []
  engine_environment:
    description: More environment variables for all instances.
    type: dict
    default: {}
  abort_timeout:
    description: >-
      Seconds after which prefill frees KV that nobody fetched, because the client or decode went away. Until
      then the KV takes up the cache.
    type: int
    default: 480
  drain_timeout:
    description: >-
      Seconds that requests in flight have to end when a process is stopped, 0 aborts them. Engines before
      0.18.0 always abort. A unit is killed 30 seconds later.
    type: int
    default: 20
  router:
    description: >-
      The front door, HAProxy on O(router.port) with two router processes behind it, so that one serves while
      the other restarts. Without it nothing routes requests.
    type: dict
    suboptions:
      host:
        description: Host that runs it, a key of O(hosts).
        type: str
        required: true
      port:
        description: Port for clients.
        type: int
        default: 8000
      kind:
        description: >-
          V(auto) takes V(vllm_router) where decode pulls, and V(ascend_layerwise), the proxy of vLLM-Ascend,
          for C(MooncakeLayerwiseConnector). Another one than the connector needs is refused.
        type: str
        choices: [auto, vllm_router, ascend_layerwise]
        default: auto
      backend_ports:
        description: >-
          Ports of the two router processes. V(vllm_router) listens on 127.0.0.1, for it has no access control;
          V(ascend_layerwise) on the host's address, for decode posts to it.
        type: list
        elements: int
        default: [18001, 18002]
      metrics_ports:
        description: Ports of their metrics on 127.0.0.1, for V(vllm_router).
        type: list
        elements: int
        default: [19001, 19002]
  master:
    description:
      - The Mooncake master, for a KV store. The connectors above work without it. Either O(master.host) or
        O(master.hosts) is required. What clients of the store have to be told stands in C(pd_cluster.master).
      - Options below O(master.metrics_port) are flags of C(mooncake_master) by their own names. What is not set is left
        to the release. A flag that the planned release of Mooncake does not have would end the master, and is refused.
      - The master keeps its keys in memory. Changing any of it restarts the master, which empties the pool; see
        the role P(mooncake.pd.master#role).
    type: dict
    suboptions:
      host:
        description: Host that runs the only one, a key of O(hosts).
        type: str
      hosts:
        description: >-
          Hosts that run one each, keys of O(hosts). One of them leads, the others stand by. They elect it through
          O(etcd), so that is required, and Mooncake 0.3.11. Another one leads about ten seconds after the leader is
          lost, and begins with an empty pool. Engines wait meanwhile, see O(store).
        type: list
        elements: str
        default: []
      cluster_id:
        description: >-
          The name of the masters' cluster, in the keys of etcd and in the paths of snapshots. Clusters that share an
          etcd need names of their own. Clients are told it by C(MC_STORE_CLUSTER_ID).
        type: str
        default: mooncake_cluster
      rpc_port:
        description: >-
          Port that store clients connect to. Not 50051, the default of C(mooncake_master), because that lies in
          the kernel's ephemeral range 32768-60999, where any outgoing connection may hold it. Naming 50051
          works and warns. 17051 is clear of that range, of NodePorts, and of what Mooncake and HCCL draw from.
        type: int
        default: 17051
      metrics_port:
        description: Port of its metrics and health. Before Mooncake 0.3.13 it listens on all addresses.
        type: int
        default: 9003
      eviction_high_watermark_ratio:
        description:
          - Share of the pool from which on the master evicts. Mooncake's default is 0.90 since 0.3.12, and 0.95 before
            (C(mooncake-store/include/types.h)); vLLM-Ascend's guide of its KV pool takes 0.9.
          - For production start with V(0.85), and O(master.eviction_ratio=0.15). No document of Mooncake or vLLM names
            these two; they are this collection's. Evicting earlier and more at a time leaves room for a burst of puts
            while what was just read is leased, and costs 5 % of the pool. Raise it again where
            C(master_put_start_alloc_failures_total) stays 0 and the hit rate matters more.
          - At V(1) only a put that failed makes the master evict, as in Mooncake's sample C(conf/master.yaml).
        type: float
      eviction_ratio:
        description: Share that one pass evicts. Mooncake's default is 0.05; vLLM-Ascend's guide takes 0.1.
        type: float
      default_kv_lease_ttl:
        description: >-
          Milliseconds for which what was read cannot be evicted. Mooncake's default is 10000 since 0.3.12, and 5000
          before. It has to be longer than a transfer may take (C(ASCEND_TRANSFER_TIMEOUT)); vLLM-Ascend's guide takes
          11000.
        type: int
      default_kv_soft_pin_ttl:
        description: Milliseconds for which a soft pin lasts. Mooncake's default is 1800000.
        type: int
      allow_evict_soft_pinned_objects:
        description: Whether what is softly pinned is evicted when nothing else is left. Mooncake's default is V(true).
        type: bool
      client_ttl:
        description: >-
          Seconds of silence after which the master takes a client for lost and drops what it keeps. Mooncake's default
          is 10; vLLM-Ascend's guide takes 120, for bound CPUs starve the heartbeat. Reads go on being sent to a client
          that has died until then.
        type: int
      put_start_discard_timeout_sec:
        description: >-
          Seconds after which a put that was begun and not ended is given up. Mooncake's default is 30. Since 0.3.8.
        type: int
      put_start_release_timeout_sec:
        description: Seconds after which the room of such a put is free again. Mooncake's default is 600. Since 0.3.8.
        type: int
      memory_allocator:
        description: How the segments are dealt out. Mooncake's default is V(offset).
        type: str
        choices: [offset, cachelib]
      allocation_strategy:
        description: >-
          Which segments a put goes to. Mooncake's default is V(random). Since 0.3.10, V(ssd_free_ratio_first) and
          V(local_first) since 0.3.12; an older release would pass over them.
        type: str
        choices: [random, free_ratio_first, ssd_free_ratio_first, local_first]
      rpc_thread_num:
        description: >-
          Threads that serve RPC. By default as many as there are cores, up to 16 since 0.3.12, and up to 4 before.
        type: int
      rpc_conn_timeout_seconds:
        description: Seconds after which an idle connection is closed; V(0), Mooncake's default, for never.
        type: int
      rpc_enable_tcp_no_delay:
        description: Whether RPC connections set C(TCP_NODELAY). Mooncake's default is V(true).
        type: bool
      enable_metric_reporting:
        description: Whether metrics are written to the log every few seconds. Mooncake's default is V(true).
        type: bool
      enable_http_metadata_server:
        description: >-
          Whether the master also keeps the metadata of the transfer engine. Clients that name V(P2PHANDSHAKE) need
          none. Whoever reaches it may read, change and delete all of it. Not with O(master.hosts).
        type: bool
      http_metadata_server_port:
        description: >-
          Its port, on all addresses, for Mooncake passes over the address that it is told
          (C(mooncake-store/src/http_metadata_server.cpp) up to 0.3.13).
        type: int
        default: 8080
      enable_metadata_cleanup_on_timeout:
        description: >-
          Whether the metadata of a client that is lost goes with it, so that its next start is not refused (Duplicate
          rpc_meta key). Since 0.3.12.
        type: bool
      enable_snapshot:
        description: Whether the keys are written to O(master.snapshot_path) now and then. Since 0.3.10.
        type: bool
      snapshot_path:
        description: >-
          Folder of the snapshots, C(MOONCAKE_SNAPSHOT_LOCAL_PATH), which the service user has to be able to write. They
          are data, nothing of this collection removes them.
        type: str
      enable_snapshot_restore:
        description: Whether a master that starts reads the newest one. Mooncake's default is V(false).
        type: bool
      snapshot_backup_dir:
        description: Folder for another copy.
        type: str
      snapshot_interval_seconds:
        description: Seconds between two of them. Mooncake's default is 600.
        type: int
      snapshot_child_timeout_seconds:
        description: Seconds that one may take. Mooncake's default is 300.
        type: int
      snapshot_retention_count:
        description: How many are kept. Mooncake's default is 2.
        type: int
      enable_offload:
        description: Whether clients may keep on their disks what leaves the memory. Since 0.3.8.
        type: bool
      offload_on_evict:
        description: Whether that happens when something is evicted, not as soon as it was put. Since 0.3.11.
        type: bool
      offload_force_evict:
        description: Whether what is more than O(master.offload_cap_ratio) is evicted without being kept. Since 0.3.11.
        type: bool
      offloading_queue_limit:
        description: How many objects may wait for a disk. Mooncake's default is 50000. Since 0.3.12.
        type: int
      offload_cap_ratio:
        description: Share of this queue that one pass may fill. Mooncake's default is 0.5. Since 0.3.12.
        type: float
      promotion_on_hit:
        description: Whether what is read from a disk comes back into memory. Since 0.3.11.
        type: bool
      promotion_admission_threshold:
        description: How often it has to be read before. Mooncake's default is 2. Since 0.3.11.
        type: int
      promotion_queue_limit:
        description: How many may be on their way back. Mooncake's default is 50000. Since 0.3.11.
        type: int
      promotion_max_per_heartbeat:
        description: How many of them one client takes at a heartbeat. Mooncake's default is 1. Since 0.3.12.
        type: int
      enable_disk_eviction:
        description: Whether what is on disks is evicted too. Mooncake's default is V(true). Since 0.3.8.
        type: bool
  etcd:
    description: >-
      etcd, for the metadata of Mooncake and for masters that stand in for each other. The connectors above work
      without it. Either O(etcd.hosts) or O(etcd.endpoints) is required. What others have to know of it stands in
      C(pd_cluster.etcd).
    type: dict
    suboptions:
      hosts:
        description: >-
          Hosts that run a member each, keys of O(hosts). Three stand the loss of one, five of two; an even number
          stands no more than the odd one below it, and warns.
        type: list
        elements: str
        default: []
      endpoints:
        description: >-
          The endpoints of an etcd that is there already, such as V(192.0.2.11:2379). Nothing is installed and nothing
          is started then.
        type: list
        elements: str
        default: []
      client_port:
        description: Port for clients, on the host's address.
        type: int
        default: 2379
      peer_port:
        description: Port for the other members, on the host's address.
        type: int
        default: 2380
      metrics_port:
        description: >-
          Port of metrics and health on the host's address, always without TLS. No key and no value can be read there.
        type: int
        default: 2381
      tls:
        description:
          - V(peers) has the members prove themselves to each other by certificates. Clients connect without, because
            Mooncake can do no other. Its client of etcd knows neither certificates nor passwords
            (C(mooncake-common/etcd/etcd_wrapper.go), 0.3.7.post2 to 0.3.13), so whoever reaches O(etcd.client_port)
            may read and change everything in it. Close it to all but the hosts of the cluster.
          - V(all) asks clients for certificates too. Mooncake cannot connect then, and the plan warns.
          - V(none) is without TLS. A member keeps the addresses by which it was added, so changing between V(none) and
            the others needs a new etcd.
        type: str
        choices: [none, peers, all]
        default: peers
  store:
    description:
      - A KV pool in Mooncake's store, beside the connector that moves KV from prefill to decode. Workers whose
        O(connector.also) names C(MooncakeStoreConnector) or C(AscendStoreConnector) put KV there and look there for
        prompts that begin alike. O(master) is required.
      - The plan writes C(mooncake.json) and C(MOONCAKE_CONFIG_PATH) of every worker, and C(PYTHONHASHSEED), without
        which none finds what others have put.
      - An engine asks the master in the thread that schedules, so it computes nothing while a master does not answer.
        From Mooncake 0.3.12 on the plan writes C(MC_RPC_TIMEOUT_MS) 5000, unless there are disks, and
        C(MC_RPC_CONNECT_TIMEOUT_MS) 1000; Mooncake's own 30 seconds each can become two minutes. They may be set in
        O(engine_environment) and O(store.environment).
      - Sizes are a number of bytes, or one with KiB, MiB, GiB or TiB. All steps are 1024, also of KB, MB, GB and TB.
    type: dict
    suboptions:
      segment_size:
        description: >-
          Memory of the host that each worker brings into the pool, that is each rank and not each host. V(0) is for
          workers of V(vllm_cpu) that bring none, beside O(store.nodes).
        type: str
        required: true
      buffer_size:
        description: Memory that each worker has for transfers, beside the segment.
        type: str
        default: 1GiB
      prefill:
        description: What is different for the workers of prefill.
        type: dict
        suboptions: &store_side
          segment_size:
            description: Their segment.
            type: str
          buffer_size:
            description: Their buffer.
            type: str
      decode:
        description: What is different for the workers of decode.
        type: dict
        suboptions: *store_side
      protocol:
        description: Transport of the pool. By default that of the connector, and another one is refused.
        type: str
        choices: [tcp, rdma, ascend]
      devices:
        description: RDMA devices of all clients of the pool, such as C(mlx5_0). Empty for those that Mooncake finds.
        type: list
        elements: str
        default: []
      ssd:
        description: >-
          Disk of each worker of V(vllm_ascend) from 0.21.0rc1 on, for what is evicted from memory. Each has a folder of
          its own in it.
        type: dict
        suboptions: &store_ssd
          path:
            description: Folder on the disk. It has to be a plain absolute path and is made by the role C(store).
            type: str
            required: true
          quota:
            description: What the files of one process may take, at least 256MiB. Beyond it the oldest go.
            type: str
            required: true
      nodes:
        description: >-
          Hosts that bring memory and compute nothing, with C(mooncake_client) of Mooncake 0.3.10.post2 or later. They
          keep KV when engines restart. Not for V(ascend).
        type: list
        elements: dict
        default: []
        suboptions:
          host:
            description: Host that runs it, a key of O(hosts); one node on each.
            type: str
            required: true
          segment_size:
            description: Memory that it brings.
            type: str
            required: true
          port:
            description: Its RPC port. Not 50052, the default of C(mooncake_client), see O(master.rpc_port).
            type: int
            default: 17052
          ssd:
            description: Disk behind it, from Mooncake 0.3.11 on. The node needs 1.3 GiB of memory more for it.
            type: dict
            suboptions: *store_ssd
      environment:
        description: Environment of the nodes, such as C(MC_STORE_USE_HUGEPAGE).
        type: dict
        default: {}
  waive:
    description: >-
      Findings that are accepted. Every report shows them with their reason. Warnings can be waived, and errors
      that do not keep the processes from being planned.
    type: list
    elements: dict
    default: []
    suboptions:
      rule:
        description: >-
          The id that a report of the plan or of preflight shows in brackets, such as V(port-in-nodeport-range).
        type: str
        required: true
      reason:
        description: Why it is no problem here.
        type: str
        required: true
      where:
        description: >-
          The key that the report names, or an entry around it, such as C(prefill). Without it the rule is
          waived everywhere. For rules of preflight about what is unknown, whose names end in C(-unknown), it is the
          fact and has to be given.
        type: str
      host:
        description: >-
          For rules of preflight, which look at hosts: the host where it is accepted. Without it the rule is waived
          on all of them.
        type: str
notes:
  - Ports are never handed out by chance or by order. Those that the plan chooses stand in
    the report of M(mooncake.pd.plan_report), each with its reason. With V(vllm_cpu) a default can clash when two
    instances share a host; the report then names a free port.
"""

EXAMPLES = r"""
# topology.yml: two A2 servers with 8 NPUs each
plugin: mooncake.pd.topology
name: a2
engine: {kind: vllm_ascend, version: "0.23.0"}
connector: {name: MooncakeConnectorV1}
mooncake: {version: "0.3.11.post1"}
model: {path: /srv/models/Qwen3-32B, served_name: qwen3}
hosts:
  npu1: {address: 192.0.2.31, interface: enp189s0f0}
  npu2: {address: 192.0.2.32, interface: enp189s0f0}
prefill:
  - {name: p1, host: npu1, tp: 8, kv_port: 28002}
decode:
  - {name: d1, host: npu2, tp: 8}
engine_args: [--max-model-len, 32768]
router: {host: npu1}
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import plan_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.problems import PlanError


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # ansible-core carries no types
    NAME = "mooncake.pd.topology"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("topology.yml", "topology.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        raw = self._load(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            plan = plan_of(raw, text, os.path.abspath(path))
        except PlanError as error:
            raise AnsibleParserError(str(error)) from None
        for warning in plan.warnings:
            self.display.warning(warning.text(path))

        if "pd" in self.inventory.groups and self.inventory.groups["pd"].get_vars().get("pd_cluster"):
            other = self.inventory.groups["pd"].get_vars()["pd_cluster"]["source"]
            raise AnsibleParserError(
                f"{path} is the second topology of this run, after {other}: the hosts of one would be told the plan of "
                "the other. Give one inventory a run."
            )
        for group, members in plan.groups().items():
            self.inventory.add_group(group)
            for host in members:
                self.inventory.add_host(host, group=group)
        # ansible-inventory --list copies the variables of a group to each of its hosts, so what grows with the hosts
        # stands where it is needed
        self.inventory.set_variable("pd", "pd_cluster", plan.cluster())
        self.inventory.set_variable("router", "pd_instances", plan.instances())
        for name, entry in plan.topology.hosts.items():
            planned = plan.hostvars(name)
            if "ansible_connection" in entry.vars:
                del planned["ansible_host"]  # other connections read it as the name of a container or a socket
            # Not through the inventory: it would copy each value, and tag it with this file, which no play needs and
            # which takes as long as all the rest of ansible-inventory --list. The plan has none but plain values.
            for variable, value in planned.items():
                self.inventory.hosts[name].set_variable(variable, value)
            for variable, value in entry.vars.items():
                self.inventory.set_variable(name, variable, value)

    def _load(self, path: str) -> Any:
        """The file as Ansible reads it, so that vault values and templates in vars stay what they are."""
        known = inspect.signature(self.loader.load_from_file).parameters
        # from ansible-core 2.19 on, only text marked as trusted is ever templated
        options = {"trusted_as_template": True} if "trusted_as_template" in known else {}
        # unsafe: as it was read, not a copy of it; without a cache there is nothing else that could change
        raw = self.loader.load_from_file(path, cache="none", unsafe=True, **options)
        if not isinstance(raw, Mapping) or raw.get("plugin") != self.NAME:
            raise AnsibleParserError(f"{path} is not a topology: it has to say `plugin: {self.NAME}`.")
        return raw
