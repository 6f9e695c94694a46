/* oxlint-disable max-lines -- a table */
/** Every event that parts of Cocoon write, as people meet it. The generator compares it with the sources. */
interface EventEntry {
  readonly reason: string;
  readonly type: "Normal" | "Warning";
  readonly meaning: string;
  /** The text of the sources that writes it, where the reason is put together from pieces. */
  readonly madeBy?: string;
}

export interface EventSource {
  readonly component: string;
  readonly on: string;
  readonly directories: readonly string[];
  readonly events: readonly EventEntry[];
}

const normal = (reason: string, meaning: string): EventEntry => ({ reason, type: "Normal", meaning });
const warning = (reason: string, meaning: string, madeBy?: string): EventEntry => ({
  reason,
  type: "Warning",
  meaning,
  ...(madeBy === undefined ? {} : { madeBy }),
});

export const eventSources: readonly EventSource[] = [
  {
    component: "vk-cocoon",
    on: "pods",
    directories: ["packages/vk/src"],
    events: [
      normal("Hibernated", "The machine is hibernated; the message names the digest."),
      normal(
        "SnapshotPushed",
        "A snapshot is in the registry; the message says how much was sent, and how long it took.",
      ),
      normal("Woken", "The machine was restored from that digest, on that node, in that time."),
      normal("Woken", "The machine was restored from that digest."),
      warning(
        "EnvironmentNotWritten",
        "The guest runs no programs for the kubelet, so its login shells do not have the variables of its claim.",
      ),
      warning(
        "SnapshotSetAside",
        "The image of a Sandbox was changed while it was suspended: the machine boots, and its snapshot is kept under another tag.",
      ),
      normal("Rewound", "The machine starts from the PodSnapshot that its pod names."),
      normal("ModeResolved", "The set names no mode and its image is not a snapshot: the image boots."),
      normal("MachineLocal", "A machine that ran before its memory and disks were here has all of them now."),
      normal(
        "WakePullsAll",
        "The machine runs only after its whole snapshot was pulled; the message says why.",
      ),
      normal("PostCloneSucceeded", "A cloned guest without agent was given its own identity."),
      normal(
        "ResumedAfterRestart",
        "vk-cocoon was restarted in the middle of a hibernation, an identity change or a start, and continues it.",
      ),
      normal("Killing", "A livenessProbe failed often enough: the machine is reset in place."),
      warning("Unhealthy", "A livenessProbe failed once more."),
      warning("HibernateSnapshotFailed", "Saving failed. The guest continues; it is retried."),
      warning(
        "HibernatePushFailed",
        "The registry did not take the snapshot. The guest continues; it is retried with a new save.",
      ),
      warning(
        "HibernateRemoveFailed",
        "The snapshot is safe, but the VM could not be removed; it is tried again.",
      ),
      warning("HibernateUnsupported", "No registry is configured: set OCI_REGISTRY or EPOCH_URL."),
      warning(
        "HibernateEvidenceUnavailable",
        "The node that hibernated the machine has not confirmed that its VM is gone, or another node is restoring it. Bring that node back, or fence it with the taint node.kubernetes.io/out-of-service.",
      ),
      warning(
        "HibernateEvidenceFailed",
        "The machine should sleep in the registry, but its tag hibernate is not there. Nothing is booted in its place.",
      ),
      warning(
        "HibernateSnapshotExists",
        "A machine of that name sleeps, made from another image. Wake it with its own image, or release its snapshot.",
      ),
      warning("WakePullFailed", "The snapshot could not be fetched; it is tried again."),
      warning(
        "WakeCloneFailed",
        "The snapshot is here, but the machine did not start from it; it is tried again.",
      ),
      warning("CreateBringUpFailed", "The machine could not be made; the message says why."),
      warning(
        "SnapshotPushFailed",
        "The snapshot that the policy wants before deletion was not stored. The VM stays, and so does the pod.",
      ),
      warning(
        "VMGone",
        "The VM is not on the node any more and no snapshot of it sleeps. Nothing is booted in its place.",
      ),
      warning(
        "SnapshotDamaged",
        "The manifest of the hibernated snapshot is there, but its config or a blob is missing. Restore the registry's storage; nothing is booted in its place.",
      ),
      warning(
        "ForeignSnapshotKept",
        "Tag hibernate names a snapshot that the running VM was not restored from. It is kept; release it, or restore it under another name.",
      ),
      warning(
        "SnapshotOwnedByOther",
        "The snapshot of that name belongs to a machine of another namespace. Choose another name.",
      ),
      warning(
        "VMOwnedByOther",
        "The VM of that name on the node belongs to a machine of another namespace. Choose another name.",
      ),
      warning(
        "SnapshotListFailed",
        "ConfigMap cocoon-vm-snapshots could not be written, so readers of the older API do not see the machine as it is.",
      ),
      warning(
        "SnapshotSizeKept",
        "The machine continues from a snapshot and keeps its size; the message says what differs from the pod's request.",
      ),
      warning(
        "RestartCooldown",
        "The VM did not stay up after several starts. The pod is Failed; VM and disk are kept, and the machine's next pod starts it again.",
      ),
      warning("RestartFailed", "The VM could not be started several times in a row. As RestartCooldown."),
      warning("WakeIPWaitTimeout", "The woken guest has no address yet. It becomes ready when it has one."),
      warning(
        "PostCloneIPWaitTimeout",
        "The cloned guest has no address yet. It becomes ready when it has one.",
      ),
      warning(
        "PostCloneExecAttemptFailed",
        "The first attempt to give a cloned guest its identity failed; more follow.",
      ),
      warning("StaticVmIncomplete", "A static machine without address or id."),
      warning("WindowsStaticIPFailed", "The fixed address could not be set over the serial console."),
      warning(
        "PostCloneExecExhausted",
        "A cloned guest without agent still has its source's identity; run the script of vm.cocoonstack.io/post-clone-hint in it.",
      ),
    ],
  },
  {
    component: "vk-cocoon",
    on: "pods, by the kubelet library",
    directories: ["packages/kubelet/src"],
    events: [
      {
        ...normal(
          "ProviderCreateSuccess",
          "The pod's machine is under way. Likewise ProviderUpdateSuccess, ProviderDeleteSuccess and ProviderDisappearedSuccess.",
        ),
        madeBy: "Provider${what}Success",
      },
      warning(
        "ProviderCreateFailed",
        "A step for the pod failed and is tried again. Likewise ProviderUpdateFailed, ProviderDeleteFailed and ProviderDisappearedFailed.",
        "Provider${what}Failed",
      ),
      warning(
        "OutOfcpu",
        "The pod does not fit on the node; likewise OutOfmemory and OutOfpods. The pod is Failed.",
        "OutOf${resource}",
      ),
      warning("NodePorts", "A host port that the pod asks for is in use on the node. The pod is Failed."),
      warning(
        "MandatoryConfigMapNotFound",
        "A ConfigMap, Secret or key that the pod's environment needs is missing; the pod waits. Optional… is the same for one that may be missing.",
        "Mandatory${what}",
      ),
      warning(
        "InvalidEnvironmentVariableNames",
        "Keys of a ConfigMap or Secret that cannot be variable names were left out.",
      ),
    ],
  },
  {
    component: "cocoon-operator",
    on: "CocoonSets",
    directories: ["packages/operator/src/cocoonset"],
    events: [
      normal("Suspended", "Every machine of the set sleeps."),
      normal("Woken", "Every machine of the set is awake again."),
      normal("Migrating", "The main agent is on its way to another node."),
      normal("Migrated", "It runs there."),
      normal("SubAgentRebuilding", "A failed sub-agent or toolbox is made anew."),
      normal("RecoveredFromFailure", "The main agent is ready again."),
      warning(
        "SubAgentDeadLetter",
        "A sub-agent or toolbox failed too often and is left alone. Delete its pod, or change its spec, for a new start.",
      ),
      warning(
        "MigrationRefused",
        "The node in spec.nodeName cannot take the machine; the message says why. Nothing was done.",
      ),
      warning(
        "MigrationReturned",
        "The move took too long and was taken back. Change spec.nodeName to try again.",
      ),
      warning("PodLifecycleFailed", "The kubelet reports that the machine failed."),
      warning(
        "MainAgentFailed",
        "The main agent's pod failed. spec.rebuild.main says whether it is made anew.",
      ),
      warning("DeadLetter", "As SubAgentDeadLetter, for as long as it lasts."),
      warning(
        "SleepFailed",
        "A machine should sleep and its kubelet reports that it cannot; the message says why.",
      ),
      warning(
        "SuspendTimedOut",
        "The set is not asleep after its time; the message names the machines that are waited for. It goes on trying.",
      ),
      warning(
        "NodeUnavailable",
        "The node that holds the VM of a machine without a pod takes no pods now. Nothing is booted in its place unless annotation boot-fresh names its pod.",
      ),
      warning(
        "SnapshotMissing",
        "A machine is hibernated or to be restored, but its tag hibernate is not in the registry. Nothing is booted in its place unless annotation boot-fresh names its pod.",
      ),
      warning(
        "SnapshotExists",
        "A machine failed, and its tag hibernate may hold its state. It is not replaced unless annotation boot-fresh names its pod.",
      ),
      warning(
        "SnapshotKept",
        "Tag hibernate of a running machine is kept: the machine is not known to be restored from it. Condition SnapshotsKept names it.",
      ),
      warning(
        "SnapshotMismatch",
        "A machine sleeps in another snapshot than its tag hibernate names; another writer changed the tag.",
      ),
      warning("NameConflict", "A machine name of the set is held by another owner."),
      warning("InvalidNames", "Machine names of the set are too long or ambiguous."),
      warning("DuplicateMain", "Another pod is labelled as the main agent; remove it or its labels."),
      warning(
        "SourceNotGranted",
        "spec.agent.from names a set of another namespace which has no CocoonSnapshotGrant for it.",
      ),
      warning(
        "SnapshotKept",
        "A snapshot is kept although the machine runs: it is not known that the machine was restored from it. Remove it with cocoonctl snapshot rm when it is not needed.",
      ),
      warning(
        "SnapshotExists",
        "A machine failed and is not rebuilt, because a snapshot of it exists or could not be looked up; the message says what to do.",
      ),
      warning("WakeNoCapacity", "No node has room for a machine that should wake."),
      warning("RegistryUnavailable", "The registry does not answer; nothing that depends on it is done."),
      warning(
        "SnapshotsLeftBehind",
        "The set was deleted while the registry was away; the message names what was left there.",
      ),
    ],
  },
  {
    component: "cocoon-operator",
    on: "Sandboxes, SandboxClaims and SandboxWarmPools",
    directories: ["packages/operator/src/sandbox"],
    events: [
      warning("MultiplePods", "More than one pod is owned by the Sandbox; none is touched."),
      normal("SandboxAdopted", "The claim took a Sandbox out of its warm pool."),
      normal("SandboxProvisioned", "A Sandbox was made for the claim alone."),
      normal("ClaimExpired", "The claim reached its time."),
      warning(
        "WarmPoolNotProgressing",
        "The pool has no template that machines can run, or its members wait for room on VM hosts.",
      ),
    ],
  },
  {
    component: "cocoon-operator",
    on: "CocoonHibernations",
    directories: ["packages/operator/src/hibernation"],
    events: [
      normal("Hibernated", "The machine sleeps."),
      normal("WokenActive", "The machine is awake."),
      normal("RetryRequested", "A failed attempt is made again."),
      warning("HibernateTimedOut", "It did not sleep in time (spec.timeout, 3m)."),
      warning("WakeTimedOut", "It did not wake in time (spec.timeout, 5m)."),
      warning("HibernationFailed", "The attempt failed; the message says why."),
      warning(
        "SnapshotKept",
        "A snapshot is kept although the machine runs: it is not known that the machine was restored from it. Remove it with cocoonctl snapshot rm when it is not needed.",
      ),
    ],
  },
  {
    component: "cocoon-webhook",
    on: "the owner of a pod, or the pod",
    directories: ["packages/webhook/src/endpoints.ts"],
    events: [
      warning(
        "WaitsForNode",
        "The machine's node cannot take it now, and it is not proven that the machine may live elsewhere; the pod waits.",
      ),
    ],
  },
];

/** Reasons in the same sources that are conditions of a status, or answers, not events. */
export const notEvents: ReadonlySet<string> = new Set([
  // Reasons of conditions of agent-sandbox and of PodSnapshots.
  "Complete",
  "Failed",
  "PodFailed",
  "PodSchedulingUnknown",
  "PodSucceeded",
  "Restored",
  "SandboxCreatePending",
  "SandboxExpired",
  "SandboxMissing",
  "SandboxNotReady",
  "SnapshotReady",
  "AllAsleep",
  "ContainersNotReady",
  "ExitCode",
  "Hibernating",
  "InternalError",
  "KubeletReady",
  "NoProofOfDescent",
  "NonZeroExitCode",
  "NoneKept",
  "NotWanted",
  "ProviderNotHealthy",
  "WaitingForMachines",
]);
