/** The same work by the SDK through the gateway and by kubectl. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gatewayKey } from "@cocoon/contract";
import { eventually, temporaryDirectory, type OwnControlPlane } from "@cocoon/testkit";
import { Sandbox } from "e2b";
import { startGatewayProcess } from "../../test/integration/gateway/gateway-process.ts";
import { template, type GatewayWorld } from "../../test/integration/gateway/world.ts";
import { computePercentiles } from "../report.ts";

export interface Scene {
  readonly cluster: OwnControlPlane;
  readonly world: GatewayWorld;
}

interface Times {
  readonly p50: number;
  readonly p99: number;
}

export interface Comparison {
  readonly sdk: Times;
  readonly kubectl: Times;
}

const slow = { requestTimeoutMs: 240_000, timeoutMs: 3_600_000 };

export async function makeSandbox({ world }: Scene, more: object = {}): Promise<Sandbox> {
  return Sandbox.create({ ...world.connection, ...slow, ...more });
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

async function kubectl({ cluster, world }: Scene, args: readonly string[], input?: string): Promise<string> {
  const done = await cluster.kubectl(["-n", world.namespace, ...args], {
    timeoutMs: 300_000,
    ...(input ? { input } : {}),
  });
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
}

/** To the end of a first command. The first sandbox boots the template, which is saved then. */
export async function measureCreates(own: Scene, count: number): Promise<Comparison> {
  // Another replica, which keeps a machine ahead, as shipped.
  await using gateway = await startGatewayProcess(own.world, { GATEWAY_WARM_POOL: "1" });
  const scene = { ...own, world: { ...own.world, connection: gateway.connection } };
  const warm = await makeSandbox(scene);
  const saved = [
    "get",
    "cocoonsets",
    "-l",
    "cocoonset.cocoonstack.io/template",
    "-o",
    "jsonpath={.items[*].status.phase}",
  ];
  await eventually(async () => assert.match(await kubectl(scene, saved), /Suspended/), {
    timeoutMs: 240_000,
  });
  await (await makeSandbox(scene)).kill(); // a clone: fills the pool
  await warm.kill();
  const times: Record<"sdk" | "kubectl", number[]> = { sdk: [], kubectl: [] };
  for (let index = 0; index < count; index += 1) {
    let made: Sandbox | undefined;
    await awaitPool(scene);
    const bySdk = async () => {
      made = await makeSandbox(scene);
      await made.commands.run("true");
    };
    times.sdk.push(await time(bySdk));
    await made?.kill();
    const name = `kubectl-${index}`;
    times.kubectl.push(await time(() => createByKubectl(scene, name)));
    await kubectl(scene, ["delete", "cocoonset", name, "--wait=false"]);
  }
  return { sdk: computePercentiles(times.sdk), kubectl: computePercentiles(times.kubectl) };
}

async function awaitPool(scene: Scene): Promise<void> {
  const members = [
    "get",
    "cocoonsets",
    "-l",
    gatewayKey.pool,
    "-o",
    "jsonpath={.items[*].metadata.annotations}",
  ];
  await eventually(async () => assert.ok((await kubectl(scene, members)).includes(gatewayKey.poolReady)), {
    timeoutMs: 240_000,
    intervalMs: 500,
  });
}

async function createByKubectl(scene: Scene, name: string): Promise<void> {
  const { image, mode, memoryMiB, storageMiB } = template;
  const memory = `${memoryMiB}Mi`;
  const resources = { requests: { cpu: "100m", memory }, limits: { cpu: "1", memory } };
  const set = {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name },
    spec: { snapshotPolicy: "never", agent: { image, mode, storage: `${storageMiB}Mi`, resources } },
  };
  await kubectl(scene, ["create", "-f", "-"], JSON.stringify(set));
  await kubectl(scene, [
    "wait",
    "--for=jsonpath={.status.phase}=Running",
    `cocoonset/${name}`,
    "--timeout=240s",
  ]);
  await kubectl(scene, ["exec", `${name}-0`, "--", "true"]);
}

export async function measureCommands(scene: Scene, count: number): Promise<Comparison> {
  const sandbox = await makeSandbox(scene);
  const pod = `${sandbox.sandboxId}-0`;
  const times: Record<"sdk" | "kubectl", number[]> = { sdk: [], kubectl: [] };
  await sandbox.commands.run("true");
  for (let index = 0; index < count; index += 1) {
    times.sdk.push(await time(() => sandbox.commands.run("true")));
    times.kubectl.push(
      await time(() => kubectl(scene, ["exec", pod, "--", "/bin/bash", "-l", "-c", "true"])),
    );
  }
  await sandbox.kill();
  return { sdk: computePercentiles(times.sdk), kubectl: computePercentiles(times.kubectl) };
}

/** Megabytes a second. */
export async function measureFiles(
  scene: Scene,
  megabytes: number,
): Promise<Record<"up" | "down", { readonly sdk: number; readonly kubectl: number }>> {
  await using directory = await temporaryDirectory();
  const sandbox = await makeSandbox(scene);
  const pod = `${sandbox.sandboxId}-0`;
  const bytes = Buffer.alloc(megabytes * 1_000_000, "0123456789abcdef");
  const [local, back] = [join(directory.path, "local"), join(directory.path, "back")];
  await writeFile(local, bytes);
  const rate = (ms: number) => (megabytes * 1000) / ms;
  const up = {
    sdk: rate(await time(() => sandbox.files.write("/tmp/sdk", new Blob([bytes]), { useOctetStream: true }))),
    kubectl: rate(await time(() => kubectl(scene, ["cp", local, `${pod}:/tmp/cp`]))),
  };
  const down = {
    sdk: rate(await time(() => sandbox.files.read("/tmp/sdk", { format: "bytes" }))),
    kubectl: rate(await time(() => kubectl(scene, ["cp", `${pod}:/tmp/cp`, back]))),
  };
  await sandbox.kill();
  return { up, down };
}
