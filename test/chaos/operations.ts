/** Requests something of the platform, as a user does, and writes into the model what is then expected. */
import { sleep } from "@cocoon/core";
import {
  computePodNames,
  isAsleep,
  newMachine,
  type MachineModel,
  type Model,
  type SetModel,
} from "./model.ts";
import type { Operation } from "./steps.ts";
import { setKind, type Platform } from "./platform.ts";

const image = "cocoon-demo";

function setManifest({ name, replicas, revision }: SetModel): string {
  // Limits beyond the request are part of the template; the machine's size stays.
  const resources = {
    requests: { cpu: "50m", memory: "128Mi" },
    limits: { cpu: String(1 + (revision % 2)), memory: "128Mi" },
  };
  return JSON.stringify({
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name, namespace: "default" },
    spec: { agent: { image, mode: "run", replicas, storage: "256Mi", resources } },
  });
}

function requireSet(model: Model, name: string): SetModel {
  const set = model.sets[name];
  if (!set) throw new Error(`this history has no set ${name} at this point`);
  return set;
}

async function patchSet(platform: Platform, set: string, spec: unknown): Promise<void> {
  await platform.kubectl(["patch", `${setKind}/${set}`, "--type=merge", "-p", JSON.stringify({ spec })]);
}

function findMachine(model: Model, pod: string) {
  const found = Object.values(model.sets).find((set) => set.machines[pod]);
  const machine = found?.machines[pod];
  if (!found || !machine) throw new Error(`this history has no machine ${pod} at this point`);
  return machine;
}

async function setHibernation(platform: Platform, pod: string, desire: "Hibernate" | "Wake"): Promise<void> {
  const manifest = {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonHibernation",
    metadata: { name: pod, namespace: "default" },
    spec: { podRef: { name: pod }, desire },
  };
  await platform.kubectl(["apply", "-f", "-"], JSON.stringify(manifest));
}

/** A request to hibernate that outlived its machine would hold for the next machine of that name. */
async function deleteHibernations(platform: Platform, pods: readonly string[]): Promise<void> {
  const kind = "cocoonhibernations.cocoonset.cocoonstack.io";
  await platform.kubectl(["delete", kind, ...pods, "--wait=false", "--ignore-not-found"]);
}

/** What the operation changes in the model; done before it is requested. */
export function expectOperation(model: Model, operation: Operation): void {
  switch (operation.kind) {
    case "drain":
      return;
    case "create": {
      const { set: name, replicas } = operation;
      const set: SetModel = {
        name,
        replicas,
        suspended: false,
        node: undefined,
        revision: 0,
        isRestored: false,
        machines: {},
      };
      for (const pod of computePodNames(set)) set.machines[pod] = newMachine(pod);
      model.sets[name] = set;
      model.era += 1;
      return;
    }
    case "delete": {
      const set = requireSet(model, operation.set);
      for (const machine of Object.values(set.machines)) {
        Reflect.deleteProperty(model.ended, machine.pod);
        // Only a machine that runs leaves a snapshot `latest`.
        if (!isAsleep(set, machine) && machine.token !== "") model.ended[machine.pod] = machine;
      }
      Reflect.deleteProperty(model.sets, operation.set);
      model.era += 1;
      return;
    }
    case "scale":
      return expectScale(model, requireSet(model, operation.set), operation.replicas);
    case "suspend":
    case "schedule":
      requireSet(model, operation.set).suspended = true;
      return;
    case "resume":
      requireSet(model, operation.set).suspended = false;
      return;
    case "hibernate":
      findMachine(model, operation.pod).asleep = true;
      return;
    case "wake":
      findMachine(model, operation.pod).asleep = false;
      return;
    case "migrate":
      requireSet(model, operation.set).node = operation.node;
      return;
    case "rollout": {
      // A new template boots new machines; the old ones leave a snapshot.
      const set = requireSet(model, operation.set);
      set.revision += 1;
      for (const pod of Object.keys(set.machines)) set.machines[pod] = newMachine(pod);
      model.era += 1;
      return;
    }
    case "restore": {
      const before = model.ended[operation.pod];
      if (!before) throw new Error(`this history has no ended machine ${operation.pod} at this point`);
      return expectCopy(model, before, operation.as);
    }
    case "clone":
      return expectCopy(model, findMachine(model, operation.pod), operation.as);
  }
}

/** New sub-agents are forks of the main agent: their disks hold what its disk holds. */
function expectScale(model: Model, set: SetModel, replicas: number): void {
  set.replicas = replicas;
  const wanted = computePodNames(set);
  const main = set.machines[`${set.name}-0`];
  for (const pod of wanted)
    set.machines[pod] ??= {
      ...newMachine(pod),
      ...(main && main.token !== "" ? { forkedFrom: main.pod } : {}),
    };
  for (const pod of Object.keys(set.machines)) {
    if (wanted.includes(pod)) continue;
    Reflect.deleteProperty(set.machines, pod);
    Reflect.deleteProperty(model.ended, pod);
  }
  model.era += 1;
}

/** A set whose machine holds the disk of another one. Its memory is the snapshot's, or gone. */
function expectCopy(model: Model, source: MachineModel, name: string): void {
  const pod = `${name}-0`;
  const machine = { ...source, pod, asleep: false, memoryMayBeLost: true };
  model.sets[name] = {
    name,
    replicas: 0,
    suspended: false,
    node: undefined,
    revision: 0,
    isRestored: true,
    machines: { [pod]: machine },
  };
  model.era += 1;
}

/** Repeatable: requested again while the API server does not answer. */
export async function requestOperation(
  platform: Platform,
  model: Model,
  operation: Operation,
): Promise<void> {
  switch (operation.kind) {
    case "create":
    case "rollout":
      await platform.kubectl(["apply", "-f", "-"], setManifest(requireSet(model, operation.set)));
      return;
    case "delete":
      await platform.kubectl(["delete", `${setKind}/${operation.set}`, "--wait=false", "--ignore-not-found"]);
      return deleteHibernations(
        platform,
        [0, 1, 2, 3].map((slot) => `${operation.set}-${slot}`),
      );
    case "scale":
      await patchSet(platform, operation.set, { agent: { replicas: operation.replicas } });
      return deleteHibernations(
        platform,
        [1, 2, 3].filter((slot) => slot > operation.replicas).map((slot) => `${operation.set}-${slot}`),
      );
    case "suspend":
      return patchSet(platform, operation.set, { suspend: true });
    case "resume":
      return patchSet(platform, operation.set, { suspend: false, schedule: null });
    case "schedule":
      return patchSet(platform, operation.set, { schedule: alwaysAsleep });
    case "hibernate":
      return setHibernation(platform, operation.pod, "Hibernate");
    case "wake":
      return setHibernation(platform, operation.pod, "Wake");
    case "migrate":
      return patchSet(platform, operation.set, { nodeName: operation.node });
    case "drain": {
      const drained = await platform.cocoonctl("drain", operation.node, "--timeout", "120s");
      if (drained.code !== 0) platform.log(`drain: ${drained.stderr.trim().split("\n").at(-1) ?? ""}`);
      await platform.kubectl(["uncordon", operation.node]);
      return;
    }
    case "restore":
      return restoreSnapshot(platform, [operation.pod], operation.as);
    case "clone":
      return restoreSnapshot(platform, [operation.pod, "hibernate"], operation.as);
  }
}

/** The entry that fired last decides: this one fires every minute. */
const alwaysAsleep = [{ cron: "* * * * *", action: "Hibernate" }];

/** Tried again while the API server or the registry cannot be reached. */
async function restoreSnapshot(platform: Platform, source: readonly string[], as: string): Promise<void> {
  const deadline = performance.now() + 120_000;
  for (;;) {
    const ran = await platform.cocoonctl("snapshot", "restore", ...source, "--as", as, "--no-wait");
    if (ran.code === 0 || (await platform.tryKubectl(["get", `${setKind}/${as}`])).code === 0) return;
    if (performance.now() > deadline) throw new Error(`snapshot restore: ${ran.stderr.trim()}`);
    await sleep(1_000, { signal: platform.signal });
  }
}
