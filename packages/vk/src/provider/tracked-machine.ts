/** One machine on this node: what is known of it, and a queue so that only one thing happens to it at a time. */
import { trace, type Tracer } from "@opentelemetry/api";
import type { ObjectKey } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import type { Vm } from "@cocoon/vm";
import type { PodWriter } from "../pod-writer.ts";
import type { CheckResult } from "../probes/checks.ts";
import { MachineTrace } from "../tracing/machine-trace.ts";
import type { Ending, ObservedProbe } from "./observed.ts";
import type { Shown } from "./status.ts";

/** Streams of users into the guest. */
export interface GuestUse {
  open: number;
  /** Grows whenever a stream ends. */
  carried: number;
}

interface ProbeState {
  /** VM id and epoch. */
  readonly identity: string;
  readonly stop: AbortController;
  result: CheckResult | undefined;
  published: CheckResult | undefined;
  /** The liveness probes of its containers run. */
  livenessStarted: boolean;
}

export class TrackedMachine {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly trace: MachineTrace;
  writer: PodWriter;
  shown: Shown | undefined;
  /** The last attempt failed: the pod must be handed over again although it did not change. */
  failed = false;
  restarts = 0;
  lastStartMs = -Infinity;
  /** Starts of a VM that did not stay up, and why the last one failed. */
  starts: { readonly inRow: number; readonly failure: string } = { inRow: 0, failure: "" };
  /** The last snapshot that this process saved of the machine; one of an earlier process may be old by now. */
  readonly saved: { id: string | undefined } = { id: undefined };
  /** In this attempt to hibernate it, what it has was sent before it is paused. */
  pushedAhead = false;
  readonly use: GuestUse = { open: 0, carried: 0 };
  probe: ProbeState | undefined;
  /** Id of the VM whose wake is complete. */
  finished = "";
  /** Id of the VM under which a foreign snapshot was reported. */
  reported = "";
  /** Its pod is gone or terminating. */
  ending: Ending | undefined;
  ended = false;
  /** Its Sandbox ended, and what the registry had of it was settled. */
  snapshotsSettled = false;
  /** The retry loop runs. */
  retrying = false;
  /** Something changed since the loop's last reconcile. */
  requeued = false;
  /** The next reconcile waits for the back-off. */
  retryLater = false;
  /** Id of the VM that this process made. */
  madeVm = "";
  #tail: Promise<unknown> = Promise.resolve();

  constructor(pod: Pod, writer: PodWriter, tracer: Tracer = trace.getTracer("vk-cocoon")) {
    this.trace = new MachineTrace(tracer);
    this.key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
    this.uid = pod.metadata.uid ?? "";
    this.writer = writer;
  }

  /** Runs after everything that was requested before. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(work);
    this.#tail = turn.catch(() => undefined);
    return turn;
  }

  describeProbe(vm: Vm | undefined): ObservedProbe {
    const { probe } = this;
    if (!vm || !probe || probe.identity !== getVmIdentity(vm))
      return { running: false, result: undefined, published: false };
    return { running: true, result: probe.result, published: probe.published === probe.result };
  }

  stopProbing(): void {
    this.probe?.stop.abort();
    this.probe = undefined;
  }
}

/** Changes with every start, clone and restore. */
export function getVmIdentity({ id, epoch }: Pick<Vm, "id" | "epoch">): string {
  return `${id} ${epoch}`;
}
