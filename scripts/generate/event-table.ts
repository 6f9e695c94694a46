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
      normal("Hibernated", "The machine sleeps; the message names the digest."),
      normal("Woken", "The machine was restored from that digest."),
      normal("PostCloneSucceeded", "A cloned guest without agent was given its own identity."),
      normal("Killing", "A livenessProbe failed often enough: the machine is reset in place."),
      warning("Unhealthy", "A livenessProbe failed once more."),
      warning(
        "HibernateSnapshotFailed",
        "Saving failed. The guest goes on; it is tried again.",
        "Hibernate${reason}Failed",
      ),
      warning(
        "HibernatePushFailed",
        "The registry did not take the snapshot. The guest goes on; it is tried again with a new save.",
        "Hibernate${reason}Failed",
      ),
      warning(
        "HibernateRemoveFailed",
        "The snapshot is safe, but the VM could not be removed; it is tried again.",
        "Hibernate${reason}Failed",
      ),
      warning("HibernateUnsupported", "No registry is configured: set OCI_REGISTRY or EPOCH_URL."),
      warning(
        "HibernateEvidenceUnavailable",
        "The node on which the machine slept has not confirmed that its VM is gone. Bring that node back, or fence it with the taint node.kubernetes.io/out-of-service.",
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
          "The pod's machine is under way. Likewise ProviderUpdateSuccess and ProviderDeleteSuccess.",
        ),
        madeBy: "Provider${what}Success",
      },
      warning(
        "ProviderCreateFailed",
        "A step for the pod failed and is tried again. Likewise ProviderUpdateFailed and ProviderDeleteFailed.",
        "Provider${what}Failed",
      ),
      warning(
        "OutOfcpu",
        "The pod does not fit on the node; likewise OutOfmemory and OutOfpods. The pod is Failed.",
        "OutOf${resource}",
      ),
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
        "SnapshotMissing",
        "A machine reports that it sleeps, but its tag hibernate is not in the registry. Nothing is booted in its place.",
      ),
      warning(
        "SnapshotMismatch",
        "A machine sleeps in another snapshot than its tag hibernate names; somebody else wrote the tag.",
      ),
      warning("NameConflict", "A machine name of the set is held by somebody else."),
      warning("InvalidNames", "Machine names of the set are too long or ambiguous."),
      warning("DuplicateMain", "Another pod is labelled as the main agent; remove it or its labels."),
      warning(
        "SourceNotGranted",
        "spec.agent.from names a set of another namespace which has no CocoonSnapshotGrant for it.",
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
    on: "CocoonHibernations",
    directories: ["packages/operator/src/hibernation"],
    events: [
      normal("Hibernated", "The machine sleeps."),
      normal("WokenActive", "The machine is awake."),
      normal("RetryRequested", "A failed attempt is made again."),
      warning("HibernateTimedOut", "It did not sleep in time (spec.timeout, 3m)."),
      warning("WakeTimedOut", "It did not wake in time (spec.timeout, 5m)."),
      warning("HibernationFailed", "The attempt failed; the message says why."),
    ],
  },
  {
    component: "cocoon-webhook",
    on: "the owner of a pod, or the pod",
    directories: ["packages/webhook/src/handlers/announce.ts"],
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
  "AllAsleep",
  "ContainersNotReady",
  "ExitCode",
  "InternalError",
  "KubeletReady",
  "NonZeroExitCode",
  "NotWanted",
  "ProviderNotHealthy",
  "WaitingForMachines",
]);
