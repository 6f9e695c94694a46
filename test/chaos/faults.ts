/** Breaks something at a given moment and repairs what does not repair itself. */
import { cp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { clusterLayout } from "@cocoon/controlplane";
import { sleep } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { killProcess, listMachineProcesses, listPageServers } from "./machines.ts";
import { computeVmName, listMachines, type Model } from "./model.ts";
import { killAllParts, partOfNode, signalPart, type NodeName } from "./parts.ts";
import type { Fault } from "./steps.ts";
import type { Platform } from "./platform.ts";

/** How long after the end of the supervisor a user runs the next command. */
const nextCommandMs = 4_000;

/** A copy of etcd with what was requested when it was made. */
export interface EtcdCopy {
  readonly directory: string;
  readonly model: Model;
}

export interface FaultContext {
  readonly platform: Platform;
  readonly model: Model;
  readonly copy: EtcdCopy | undefined;
}

/** Ends when the fault is over. Returns false when there was nothing to break. */
export async function injectFault(context: FaultContext, fault: Fault): Promise<boolean> {
  const { platform, model } = context;
  const { home, signal } = platform;
  using _active = platform.recovery.beginFault();
  switch (fault.kind) {
    case "kill": {
      const killed = await signalPart(home, fault.part, "SIGKILL");
      if (killed) platform.recovery.partKilled(fault.part);
      if (killed && fault.part === "supervisor") {
        // Nothing supervises the supervisor: it returns with the next command of a user.
        await sleep(nextCommandMs, { signal });
        await platform.startSupervisor();
      }
      return killed;
    }
    case "pause": {
      if (!(await signalPart(home, fault.part, "SIGSTOP"))) return false;
      await sleep(fault.forMs, { signal });
      await signalPart(home, fault.part, "SIGCONT");
      return true;
    }
    case "killGuest":
      return await signalGuest(context, fault.pod, "SIGKILL");
    case "pauseGuest": {
      if (!(await signalGuest(context, fault.pod, "SIGSTOP"))) return false;
      await sleep(fault.forMs, { signal });
      await signalGuest(context, fault.pod, "SIGCONT");
      return true;
    }
    case "killPageServer": {
      const servers = listPageServers(home).filter(({ vmName }) => vmName === computeVmName(fault.pod));
      for (const { pid } of servers) killProcess(pid, "SIGKILL");
      return servers.length > 0;
    }
    case "powerCut":
      await cutPower(platform);
      for (const { machine } of listMachines(model)) machine.memoryMayBeLost = true;
      return true;
    case "registry": {
      using _fault = platform.registry.inject(fault.fault);
      await sleep(fault.forMs, { signal });
      return true;
    }
    case "clock":
      await platform.setClock(fault.part, fault.offsetMs);
      await sleep(fault.forMs, { signal });
      await platform.setClock(fault.part, 0);
      return true;
    case "etcdRestore":
      return await restoreEtcd(context);
    case "nodeLost":
      for (const { machine } of listMachines(model)) machine.memoryMayBeLost = true;
      await loseNode(platform, fault.node);
      return true;
    default:
      return false;
  }
}

async function signalGuest({ platform, model }: FaultContext, pod: string, signal: NodeJS.Signals) {
  const found = listMachineProcesses(platform.home).filter(({ vmName }) => vmName === computeVmName(pod));
  for (const { pid } of found) killProcess(pid, signal);
  const machine = listMachines(model).find((each) => each.machine.pod === pod)?.machine;
  if (machine && found.length > 0 && signal === "SIGKILL") machine.memoryMayBeLost = true;
  return found.length > 0;
}

/** Every process of the platform dies at the same moment, machines included. */
async function cutPower({ home, signal }: Platform): Promise<void> {
  // Again until nothing is left: what a dying part had just started is not in the first list.
  for (;;) {
    const machines = [...listMachineProcesses(home), ...listPageServers(home)];
    const parts = killAllParts(home);
    for (const { pid } of machines) killProcess(pid, "SIGKILL");
    if (parts + machines.length === 0) return;
    await sleep(20, { signal });
  }
}

/** A copy as a crash would leave it: taken while etcd stands still. */
export async function copyEtcd(platform: Platform, model: Model): Promise<EtcdCopy> {
  const { etcd } = clusterLayout(platform.home);
  const directory = join(platform.home, "..", "etcd-copy");
  const draft = `${directory}.draft`;
  await rm(draft, { recursive: true, force: true });
  await signalPart(platform.home, "etcd", "SIGSTOP");
  try {
    await cp(etcd, draft, { recursive: true });
  } finally {
    await signalPart(platform.home, "etcd", "SIGCONT");
  }
  await rm(directory, { recursive: true, force: true });
  await rename(draft, directory);
  return { directory, model: structuredClone(model) };
}

async function restoreEtcd({ platform, model, copy }: FaultContext): Promise<boolean> {
  if (!copy || copy.model.era !== model.era) return false;
  await putEtcdBack(platform, copy);
  // What was requested since the copy was made is no longer known.
  for (const [name, set] of Object.entries(copy.model.sets)) {
    const now = model.sets[name];
    if (!now) continue;
    now.suspended = set.suspended;
    now.node = set.node;
    for (const [pod, machine] of Object.entries(set.machines)) {
      const current = now.machines[pod];
      if (current) current.asleep = machine.asleep;
    }
  }
  return true;
}

/**
 * As an administrator restores a backup: Kubernetes' own parts stop with etcd, the data is replaced, all start again. The
 * scheduler and the controller manager would go on with objects of the history that is gone.
 */
export async function putEtcdBack(platform: Platform, copy: Pick<EtcdCopy, "directory">): Promise<void> {
  const { etcd } = clusterLayout(platform.home);
  await signalPart(platform.home, "supervisor", "SIGSTOP"); // until the next up
  for (const part of ["kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"])
    await signalPart(platform.home, part, "SIGKILL");
  await sleep(200, { signal: platform.signal });
  await rm(etcd, { recursive: true, force: true });
  await cp(copy.directory, etcd, { recursive: true });
  await platform.up();
}

/**
 * A node is cut off, an administrator switches the host off and fences it (taint out-of-service), pod garbage collection
 * removes its pods by force; then the host returns with its disk, and the taint goes.
 */
export async function loseNode(platform: Platform, node: NodeName): Promise<void> {
  const { home, kubectl, signal } = platform;
  const part = partOfNode(node);
  await signalPart(home, part, "SIGSTOP");
  for (const machine of [...listMachineProcesses(home), ...listPageServers(home)])
    if (machine.node === node) killProcess(machine.pid, "SIGKILL");
  await eventually(
    async () => {
      const ready = await kubectl([
        "get",
        `node/${node}`,
        "-o",
        'jsonpath={.status.conditions[?(@.type=="Ready")].status}',
      ]);
      if (ready === "True") throw new Error(`${node} still counts as ready`);
    },
    { timeoutMs: 120_000, intervalMs: 1_000, signal },
  );
  await kubectl(["taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]);
  await eventually(
    async () => {
      const onNode = `--field-selector=spec.nodeName=${node}`;
      const left = await kubectl(["get", "pods", "-n", "default", "-o", "name", onNode]);
      if (left.trim() !== "") throw new Error(`pods are still bound to ${node}: ${left}`);
    },
    { timeoutMs: 120_000, intervalMs: 1_000, signal },
  ).catch((error: unknown) => platform.log(`pod garbage collection: ${String(error)}`));
  await sleep(3_000, { signal });
  await signalPart(home, part, "SIGCONT");
  await kubectl(["taint", "node", node, "node.kubernetes.io/out-of-service-"]);
}
