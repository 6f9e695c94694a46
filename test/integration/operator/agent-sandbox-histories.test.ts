/** Random histories of Sandboxes, with kills of the kubelets and the operator: no machine is lost, doubled or left over. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { count, eventually, seededRandom, sharedControlPlane, testSeed } from "@cocoon/testkit";
import { sandboxVmName } from "@cocoon/contract";
import {
  condition,
  installAgentSandbox,
  openSandboxWorld,
  sandboxObject,
  timeoutMs,
  type SandboxWorld,
} from "./sandbox-world.ts";

const cluster = await sharedControlPlane();
await installAgentSandbox(cluster);

/** What the test knows of a Sandbox: the mark in its memory, and whether it should run. */
interface Model {
  readonly name: string;
  readonly vmName: string;
  mark: string;
  running: boolean;
  expired: boolean;
}

const sandboxCount = 3;
const stepsPerHistory = 6;

function holders({ nodes }: SandboxWorld, vmName: string) {
  return nodes.flatMap((node) =>
    [...node.host.vms.values()].filter(({ vm }) => vm.name === vmName).map((found) => ({ node, found })),
  );
}

async function patch(world: SandboxWorld, { name }: Model, spec: object): Promise<void> {
  await world.kubectl("patch", "sandbox", name, "--type=merge", "-p", JSON.stringify({ spec }));
}

/** The next pod is made in the same second, on any node, while the VM may still run. */
async function removeByForce(world: SandboxWorld, name: string): Promise<void> {
  const force = ["--force", "--grace-period=0", "--wait=false", "--ignore-not-found"];
  await world.kubectl("delete", "pod", name, ...force);
}

/** One thing that happens. The world may still be busy with earlier ones. */
const steps: Readonly<
  Record<string, (world: SandboxWorld, model: Model, pick: () => number) => Promise<void>>
> = {
  suspend: async (world, model) => {
    model.running = false;
    await patch(world, model, { operatingMode: "Suspended" });
  },
  resume: async (world, model) => {
    model.running = true;
    await patch(world, model, { operatingMode: "Running" });
  },
  expire: async (world, model) => {
    model.expired = true;
    await patch(world, model, { shutdownTime: new Date(Date.now() - 1_000).toISOString() });
  },
  revive: async (world, model) => {
    model.expired = false;
    await patch(world, model, { shutdownTime: null });
  },
  deletePod: async (world, { name }) =>
    void (await world.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")),
  forcePod: (world, { name }) => removeByForce(world, name),
  killKubelet: async (world, _model, pick) => {
    const node = world.nodes[pick() % world.nodes.length];
    await node?.kill();
    await node?.start();
  },
  forcePodOfDeadKubelet: async (world, { name }, pick) => {
    const node = world.nodes[pick() % world.nodes.length];
    await node?.kill();
    await removeByForce(world, name);
    await node?.start();
  },
  killOperator: async (world) => {
    await world.killOperator();
    await world.startOperator();
  },
};
const names = Object.keys(steps);

/** Everything is as the Sandboxes ask for, with the memory that was there. */
async function settles(world: SandboxWorld, models: readonly Model[]): Promise<void> {
  for (const model of models)
    await eventually(
      async () => {
        const shown = await world.get("sandbox", model.name);
        const found = holders(world, model.vmName);
        const wanted = model.expired
          ? "SandboxExpired"
          : model.running
            ? "DependenciesReady"
            : "SandboxSuspended";
        assert.equal(condition(shown, "Ready")?.reason, wanted, model.name);
        const shouldRun = model.running && !model.expired;
        assert.equal(found.length, shouldRun ? 1 : 0, `VMs of ${model.name}`);
        if (!shouldRun) assert.equal(await world.pod(model.name), undefined);
        if (shouldRun) assert.equal(found[0]?.found.guest.read("/run/mark"), model.mark, model.name);
        else assert.ok(await world.tagged(model.vmName, "hibernate"), model.name);
      },
      { timeoutMs },
    );
}

test(`${count({ small: 4, full: 100 })} random histories with kills lose, double and leave no machine`, async () => {
  const pick = seededRandom(testSeed());
  const next = () => Math.floor(pick() * 2 ** 30);
  await using world = await openSandboxWorld(cluster);
  const models: Model[] = [];
  for (let index = 0; index < sandboxCount; index += 1) {
    const name = `h${index}`;
    await world.apply(sandboxObject(world, name));
    const uid = await world.kubectl("get", "sandbox", name, "-o", "jsonpath={.metadata.uid}");
    const vmName = sandboxVmName(world.namespace.name, uid);
    models.push({ name, vmName, mark: "", running: true, expired: false });
  }
  await eventually(() => Promise.resolve(models.forEach((model) => write(world, model))), { timeoutMs });
  for (let history = 0; history < count({ small: 4, full: 100 }); history += 1) {
    const done: string[] = [];
    for (let step = 0; step < stepsPerHistory; step += 1) {
      const name = names[next() % names.length] ?? "resume";
      const model = models[next() % models.length];
      assert.ok(model);
      done.push(`${name} ${model.name}`);
      await steps[name]?.(world, model, next);
    }
    try {
      await settles(world, models);
    } catch (error) {
      throw new Error(`history ${history}: ${done.join(", ")}`, { cause: error });
    }
    for (const model of models) if (model.running && !model.expired) write(world, model);
  }
  await world.kubectl("delete", "sandboxes", "--all", "--wait=false");
  await eventually(async () => assert.equal(await world.kubectl("get", "sandboxes", "-o", "name"), ""), {
    timeoutMs,
  });
  for (const model of models) {
    assert.deepEqual(holders(world, model.vmName), []);
    assert.equal(await world.tagged(model.vmName, "hibernate"), undefined);
  }
});

/** A new value that only the memory of the machine has. */
function write(world: SandboxWorld, model: Model): void {
  const [holder] = holders(world, model.vmName);
  assert.ok(holder, `no VM of ${model.name}`);
  const value = randomBytes(4).toString("hex");
  holder.found.guest.write("/run/mark", value);
  model.mark = value;
}
