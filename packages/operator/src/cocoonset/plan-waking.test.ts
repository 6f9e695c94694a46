/** What is planned for a set that wakes, and for machines that sleep on their own. */
import { annotation, setAnnotation } from "@cocoon/contract";
import { digest, memory, otherDigest } from "../testing/fixtures.ts";
import { table } from "../testing/plan-table.ts";

const suspend = { suspend: true };
const awake = { state: "ready" };
const asleep = { state: "hibernated", digest };
const waking = { state: "creating", digest };

table("waking", [
  {
    row: "a kept pod loses the key",
    pods: { 0: "asleep" },
    status: memory("Suspended", { 0: asleep }),
    does: ["persistStatus", "wake a-0"],
    phase: "Pending",
  },
  {
    row: "a released pod: the snapshot is looked up",
    status: memory("Suspended", { 0: asleep }),
    does: [],
    lookups: ["a-0"],
  },
  {
    row: "a released pod: Waking is written before the pod, near the old node",
    status: memory("Suspended", { 0: asleep }),
    annotations: { [setAnnotation.hibernatedOnNode]: "n3" },
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore preferred n3"],
    phase: "Waking",
  },
  {
    row: "no copy, and it never slept: a fresh boot",
    status: memory("Suspended"),
    tags: { 0: null },
    does: ["create a-0"],
    phase: "Waking",
  },
  {
    row: "no snapshot of what was being woken: nothing is booted in its place",
    status: memory("Waking", { 0: waking }),
    tags: { 0: null },
    does: [],
    phase: "Waking",
    problem: "SnapshotMissing",
  },
  {
    row: "the copy of what was woken: it never came so far",
    status: memory("Waking", { 0: waking }),
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore"],
    phase: "Waking",
  },
  {
    row: "no copy of what slept: nothing is booted in its place",
    status: memory("Suspended", { 0: asleep }),
    tags: { 0: null },
    does: [],
    problem: "SnapshotMissing",
  },
  {
    row: "unless a user permits it",
    status: memory("Suspended", { 0: asleep }),
    annotations: { [setAnnotation.bootFresh]: "a-0" },
    tags: { 0: null },
    does: ["persistStatus", "create a-0"],
  },
  {
    row: "a newer copy than the one it was seen in: its kubelet wakes it, and it is known to sleep no longer",
    status: memory("Suspended", { 0: asleep }),
    tags: { 0: otherDigest },
    does: ["persistStatus", "create a-0"],
  },
  {
    row: "a sleep that could not be proven is over all the same before the key goes",
    pods: { 0: { how: "asleep", annotations: { [annotation.snapshotDigest]: otherDigest } } },
    status: memory("Suspended", { 0: asleep }),
    tags: { 0: new Error("down") },
    does: ["persistStatus", "wake a-0"],
    problem: "RegistryUnavailable",
  },
  {
    row: "a registry that does not answer creates nothing",
    status: memory("Suspended", { 0: asleep }),
    tags: { 0: new Error("down") },
    does: [],
    problem: "RegistryUnavailable",
  },
  {
    row: "on its way",
    status: memory("Waking", { 0: asleep }),
    pods: { 0: { how: "waking", restored: true } },
    does: [],
    phase: "Waking",
  },
  {
    row: "no room",
    status: memory("Waking", { 0: asleep }),
    pods: { 0: "unschedulable" },
    does: ["count wakeUnschedulable"],
    phase: "Waking",
    problem: "WakeNoCapacity",
  },
  {
    row: "no room is counted once",
    status: memory("Waking", { 0: asleep }, [
      {
        type: "Degraded",
        status: "True",
        reason: "WakeNoCapacity",
        message: "",
        lastTransitionTime: "2026-06-01T11:00:00Z",
      },
    ]),
    pods: { 0: "unschedulable" },
    does: [],
    problem: "WakeNoCapacity",
  },
  {
    row: "back: the hint goes, the copy stays for a while",
    status: memory("Waking", { 0: asleep }),
    annotations: { [setAnnotation.hibernatedOnNode]: "n1" },
    pods: { 0: "ready" },
    does: ["note hibernated-on-node", "count wake"],
    phase: "Running",
  },
  {
    row: "back for a while: the copy is looked up",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: { 0: { readyAt: "2026-06-01T11:00:00Z" } },
    does: [],
    lookups: ["a-0"],
  },
  {
    row: "back for a while: dropped by its digest, when the VM was restored from it",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: { 0: { readyAt: "2026-06-01T11:00:00Z", restoredDigest: digest } },
    tags: { 0: digest },
    does: ["drop a-0"],
    phase: "Running",
  },
  {
    row: "a machine whose memory is still coming from the copy keeps it",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: {
      0: {
        readyAt: "2026-06-01T11:00:00Z",
        restoredDigest: digest,
        annotations: { [annotation.loading]: "true" },
      },
    },
    tags: { 0: digest },
    does: [],
    phase: "Running",
  },
  {
    row: "a newer copy is never dropped",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: { 0: { readyAt: "2026-06-01T11:00:00Z" } },
    tags: { 0: otherDigest },
    does: [],
    phase: "Running",
  },
  {
    row: "a machine that is not ready for the newest request keeps its copy",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: {
      0: { readyAt: "2026-06-01T11:00:00Z", annotations: { [annotation.lifecycleObservedGeneration]: "1" } },
    },
    does: [],
  },
  {
    row: "a pod that vanished after its wake does not go back to the old copy",
    status: memory("Running", { 0: { ...awake, digest } }),
    tags: { 0: digest },
    does: ["release a-0", "create a-0"],
  },
  {
    row: "a pod that vanished after a newer sleep is left to its kubelet: nothing proves here that its VM is gone",
    status: memory("Running", { 0: { ...awake, digest } }),
    tags: { 0: otherDigest },
    does: ["create a-0"],
  },
]);

table("hibernations", [
  {
    row: "a request to sleep sets the key",
    pods: { 0: "ready" },
    hibernations: { 0: {} },
    does: ["sleep a-0 (hibernation)"],
  },
  {
    row: "a request that was fulfilled changes nothing",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    does: [],
    phase: "Running",
  },
  {
    row: "a request to wake removes it",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    hibernations: { 0: { desire: "Wake", status: { phase: "Hibernated" } } },
    does: ["persistStatus", "wake a-0"],
  },
  {
    row: "a wake that was done is not done again",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: digest },
    hibernations: { 0: { desire: "Wake", status: { phase: "Active", observedGeneration: 1 } } },
    does: [],
    phase: "Suspended",
  },
  {
    row: "suspension outranks a request to wake",
    spec: suspend,
    pods: { 0: "ready" },
    hibernations: { 0: { desire: "Wake" } },
    does: ["sleep a-0 (suspend)"],
  },
  {
    row: "a sleep that began is finished before a wake",
    pods: { 0: { how: "dozing", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    hibernations: { 0: { desire: "Wake", status: { phase: "Hibernating" } } },
    does: [],
  },
  {
    row: "a machine whose hibernation was deleted sleeps on",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    does: [],
    phase: "Running",
  },
  {
    row: "a key set by hand is left",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: undefined } } },
    tags: { 0: digest },
    does: [],
    phase: "Running",
  },
  {
    row: "one that a set of the Go operator left is removed",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: undefined } } },
    status: memory("Suspended", { 0: asleep }),
    does: ["persistStatus", "wake a-0"],
  },
  {
    row: "a pod recreated under a hibernation sleeps on from its copy",
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore asleep(hibernation)"],
  },
  {
    row: "one recreated while it wakes is restored",
    hibernations: { 0: { desire: "Wake", status: { phase: "Waking" } } },
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore"],
  },
]);
