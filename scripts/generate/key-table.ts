/* oxlint-disable max-lines -- a table */
/**
 * The writers and readers of each metadata key: the source of docs/contract.md. A test of `contract` compares that page with
 * `keys.ts`, so that a new key cannot stay undocumented.
 */
import {
  annotation,
  finalizer,
  hibernationAnnotation,
  hostTaint,
  label,
  legacyAnnotation,
  legacyLabel,
  nodeAnnotation,
  nodeLabel,
  setAnnotation,
  shardAnnotation,
  workloadAnnotation,
} from "@cocoon/contract";
import { gatewayRows } from "./gateway-rows.ts";

export interface KeyEntry {
  readonly key: string;
  readonly on: "pod" | "node" | "CocoonSet" | "CocoonHibernation" | "workload" | "ConfigMap" | "Secret";
  readonly as: "label" | "annotation" | "taint" | "finalizer";
  readonly writer: string;
  readonly reader: string;
  readonly meaning: string;
}

export type Row = readonly [key: string, writer: string, reader: string, meaning: string];

const podLabels: readonly Row[] = [
  [label.set, "operator", "operator, users", "name of the set"],
  [label.role, "operator", "operator", "`main`, `sub-agent` or `toolbox`"],
  [label.slot, "operator", "operator", "slot number of an agent, name of a toolbox"],
  [label.appName, "operator", "users", "name of the set"],
];

const nodeLabels: readonly Row[] = [
  [
    nodeLabel.pool,
    "kubelet",
    "scheduler, webhook",
    "pool of the host, `default` by default; pods select on it",
  ],
  [
    nodeLabel.snapshotCpuClass,
    "kubelet",
    "scheduler, kubelet",
    "CPU class that snapshots are compatible with",
  ],
  [
    nodeLabel.networkPolicy,
    "kubelet",
    "gateway",
    "ours: `enforced` where NetworkPolicies hold for machines of the node",
  ],
  [nodeLabel.role, "kubelet", "users", "empty; makes `kubectl get nodes` show the role"],
];

const podAnnotations: readonly Row[] = [
  [annotation.mode, "operator, webhook", "kubelet", "`clone`, `run` or `static`"],
  [annotation.image, "operator, webhook", "kubelet", "snapshot, image or address to start from"],
  [annotation.storage, "operator", "kubelet", "size of the root volume, a quantity"],
  [
    annotation.managed,
    "operator, webhook",
    "kubelet, operator",
    "`true`: the kubelet owns the machine; absent: adopt only",
  ],
  [annotation.os, "operator", "kubelet, operator", "operating system of the guest"],
  [annotation.snapshotPolicy, "operator", "kubelet", "`always`, `main-only` or `never`"],
  [annotation.network, "operator", "kubelet", "network to attach to"],
  [annotation.forcePull, "operator", "kubelet", "`true`: fetch the image even when it is there"],
  [annotation.generation, "operator", "kubelet, operator", "generation of the set; the kubelet echoes it"],
  [annotation.deadLetter, "operator", "operator", "`true`: this sub-agent used up its rebuilds"],
  [
    annotation.vmName,
    "operator, webhook",
    "all parts",
    "name of the machine, on the host and in the registry",
  ],
  [
    annotation.vmId,
    "kubelet (operator for static)",
    "operator, kubelet",
    "id in the runtime; removed while asleep",
  ],
  [annotation.ip, "kubelet (operator for static)", "operator, users", "address; removed while asleep"],
  [annotation.vncPort, "operator (static), kubelet", "operator, users", "VNC port, decimal"],
  [annotation.hibernate, "operator, users", "kubelet", "`true`: put the machine to sleep; removed: wake it"],
  [annotation.restoreFromHibernate, "operator", "kubelet, operator", "`true`: start from tag `hibernate`"],
  [annotation.keepSnapshotOnDelete, "operator", "kubelet", "`true`: keep the node's copy of the snapshot"],
  [annotation.forkFrom, "operator", "kubelet", "machine to fork from"],
  [annotation.cloneFromDir, "users", "kubelet", "directory on the host to clone from"],
  [annotation.connType, "operator", "operator, users", "`ssh`, `rdp`, `vnc` or `adb`"],
  [annotation.backend, "operator", "kubelet", "preferred hypervisor"],
  [annotation.noDirectIo, "operator", "kubelet", "`true`: use the host's page cache"],
  [annotation.probePort, "operator", "kubelet", "TCP port of the readiness check, decimal"],
  [
    annotation.lifecycleState,
    "kubelet",
    "operator, users",
    "`creating`, `ready`, `hibernating`, `hibernated` or `failed`",
  ],
  [annotation.lifecycleObservedGeneration, "kubelet", "operator", "generation the state refers to, decimal"],
  [annotation.lifecycleStateMessage, "kubelet", "operator, users", "reason, for people"],
  [annotation.postCloneHint, "kubelet", "users", "script to run in a cloned guest, base64"],
  [annotation.postCloneState, "kubelet", "kubelet", "`running`, `done` or `failed`"],
  [annotation.postCloneErrors, "kubelet", "users", "why the script failed"],
  [annotation.reservation, "webhook", "webhook", "ours: the admission that reserved the machine's name"],
  [
    annotation.admission,
    "webhook",
    "webhook",
    "ours: what the webhook added, so that asking about the pod again starts from what came",
  ],
  [
    annotation.snapshotDigest,
    "kubelet",
    "operator, kubelet",
    "ours: digest of the snapshot the machine sleeps in",
  ],
  [annotation.idleSince, "kubelet", "operator", "ours: time since which the machine has been idle"],
  [
    annotation.savedGeneration,
    "kubelet",
    "gateway",
    "ours: generation whose hibernation has the machine paused and saved on its node; the push follows",
  ],
  [
    annotation.hibernateReason,
    "operator",
    "operator",
    "ours: who asked for the sleep: `suspend`, `migration`, `hibernation` or `idle`; absent on a key set by hand",
  ],
  [
    annotation.templateHash,
    "operator",
    "operator",
    "ours: what the pod was built from; another text means drift",
  ],
  [
    annotation.logs,
    "users",
    "kubelet",
    "ours: `console` shows the console where the guest has a journal as well",
  ],
  [
    annotation.restoredFrom,
    "kubelet",
    "kubelet",
    "ours: id of the snapshot the machine was last woken from; an old node compares before it lets go of its VM",
  ],
  [
    annotation.restoredDigest,
    "kubelet",
    "kubelet, operator",
    "digest of the snapshot that the VM in `id` was restored from: the proof of descent that dropping it needs",
  ],
  [
    annotation.lazyWake,
    "user",
    "kubelet",
    "ours: `false` lets the machine run only after its whole snapshot was pulled",
  ],
  [
    annotation.loading,
    "kubelet",
    "kubelet, operator",
    "ours: `true` while the VM runs and content of its snapshot is still on its way: the snapshot is not dropped",
  ],
  [
    annotation.env,
    "operator",
    "kubelet, gateway",
    "variables that the running machine is given, a JSON object: those of a SandboxClaim",
  ],
  [annotation.envApplied, "kubelet", "operator", "hash of the variables that the guest has"],
  [annotation.snapshotRequest, "operator", "kubelet", "name of a PodSnapshot to make of the running machine"],
  [annotation.snapshotTaken, "kubelet", "operator", "the PodSnapshot that was made, and its digest"],
  [
    annotation.restoredSnapshots,
    "kubelet",
    "kubelet",
    "PodSnapshots that are part of what the machine woke from",
  ],
  [
    annotation.rewoundTo,
    "kubelet",
    "kubelet",
    "the PodSnapshot that the machine was set back to before it woke",
  ],
  [
    annotation.pause,
    "user, on a SandboxWarmPool; operator",
    "operator, kubelet",
    "`true`: the machine stands still from when it is ready until the annotation is removed, as a member of a warm pool does",
  ],
  [annotation.paused, "kubelet", "operator, kubelet", "`true` while it does, and until it answers again"],
];

const setAnnotations: readonly Row[] = [
  [setAnnotation.hibernatedOnNode, "operator", "operator", "node the main agent slept on; a wake prefers it"],
  [setAnnotation.deleteVmNames, "operator", "operator", "machines whose snapshots are looked at on deletion"],
  [setAnnotation.rebuildHistory, "operator", "operator", "rebuilds per slot, JSON"],
  [setAnnotation.toolboxRebuilds, "operator", "operator", "ours: rebuilds per toolbox, JSON"],
  [
    setAnnotation.migration,
    "operator",
    "operator",
    "ours: the move of the main agent that is under way, JSON",
  ],
  [
    setAnnotation.releasedVmNames,
    "operator",
    "operator",
    "ours: machines given up while they slept, whose snapshots are still to be renamed",
  ],
  [
    setAnnotation.vmNamesUid,
    "operator",
    "operator",
    "ours: uid of the set that wrote the lists of VM names; in a copy of the set it does not match",
  ],
  [
    setAnnotation.bootFresh,
    "users",
    "operator",
    "ours: pods that may boot anew although their snapshot is missing, comma-joined",
  ],
];

const hibernationAnnotations: readonly Row[] = [
  [
    hibernationAnnotation.retry,
    "users",
    "operator",
    "ours: a new text asks for another attempt after Failed",
  ],
];

const olderRows: readonly Row[] = Object.values(legacyAnnotation).map((key) => [
  key,
  "bridge",
  "kubelet, operator",
  "older name; read where the new key is missing",
]);

const olderLabels: readonly Row[] = Object.values(legacyLabel).map((key) => [
  key,
  "bridge",
  "users",
  "older name, on bridged pods",
]);

export function keyTable(): readonly KeyEntry[] {
  return [
    ...entries(podLabels, "pod", "label"),
    ...entries(podAnnotations, "pod", "annotation"),
    ...entries(nodeLabels, "node", "label"),
    ...entries(
      [
        [nodeAnnotation.machines, "kubelet", "operator", "names of the VMs that the node holds, by commas"],
        [
          nodeAnnotation.frozenMachines,
          "kubelet",
          "operator",
          "names of the VMs that the node keeps frozen, by commas",
        ],
      ],
      "node",
      "annotation",
    ),
    ...entries(
      [
        [
          hostTaint.key,
          "kubelet",
          "scheduler, webhook",
          `taint \`${hostTaint.key}=${hostTaint.value}:${hostTaint.effect}\`; a toleration with this key makes a pod a machine`,
        ],
      ],
      "node",
      "taint",
    ),
    ...entries(setAnnotations, "CocoonSet", "annotation"),
    ...entries(gatewayRows.setLabels, "CocoonSet", "label"),
    ...entries(gatewayRows.setAnnotations, "CocoonSet", "annotation"),
    ...entries(gatewayRows.secretLabels, "Secret", "label"),
    ...entries(gatewayRows.configMapLabels, "ConfigMap", "label"),
    ...entries(hibernationAnnotations, "CocoonHibernation", "annotation"),
    ...entries(
      [[finalizer.cocoonSet, "operator", "operator", "snapshots are settled before the set goes"]],
      "CocoonSet",
      "finalizer",
    ),
    ...entries(
      [[finalizer.cocoonHibernation, "operator", "operator", "removed at once; the snapshot stays"]],
      "CocoonHibernation",
      "finalizer",
    ),
    ...entries(
      [[workloadAnnotation.allowScaleDown, "users", "webhook", "ours: `true` lets a scale-down through"]],
      "workload",
      "annotation",
    ),
    ...entries(
      [
        [shardAnnotation.sealed, "webhook", "webhook", "ours: takes no new reservation"],
        [shardAnnotation.imported, "webhook", "webhook", "ours: this older store was taken over"],
      ],
      "ConfigMap",
      "annotation",
    ),
    ...entries(olderLabels, "pod", "label"),
    ...entries(olderRows, "pod", "annotation"),
  ];
}

function entries(rows: readonly Row[], on: KeyEntry["on"], as: KeyEntry["as"]): KeyEntry[] {
  return rows.map(([key, writer, reader, meaning]) => ({ key, on, as, writer, reader, meaning }));
}
