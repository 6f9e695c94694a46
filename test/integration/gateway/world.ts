/**
 * A gateway in front of real parts: API server, scheduler, registry, operator and a kubelet with real guests. The gateway has the
 * rights of deploy/gateway/rbac.yaml and no others.
 */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createLogger, createRegistry, silentLogger } from "@cocoon/core";
import { startGateway, type GatewayOptions, type RunningGateway } from "@cocoon/gateway";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startOperator } from "@cocoon/operator";
import { temporaryDirectory, type OwnControlPlane } from "@cocoon/testkit";
import { parse, stringify } from "yaml";
import { createApiKey } from "../../../packages/cli/src/cluster/api-keys.ts";
import { installCrds } from "../contract/install-crds.ts";
import { openRealNode } from "../vk/real-guest.ts";
import { imageDirectory } from "../vm/qemu-harness.ts";

export interface GatewayWorld extends AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly namespace: string;
  readonly client: KubeConnection;
  /** With the rights of the gateway. */
  readonly gatewayKubeconfig: string;
  /** What an SDK is given. */
  readonly connection: { readonly apiKey: string; readonly apiUrl: string; readonly sandboxUrl: string };
  /** Another replica, with changes of its own. */
  newGateway(changes?: Partial<GatewayOptions>): Promise<RunningGateway>;
  newKey(namespace: string): Promise<string>;
  /** Kills the kubelet and every VM of the node. */
  loseNode(): Promise<void>;
  returnNode(): Promise<void>;
  /** What the cluster says of the sandboxes, for a test that failed. */
  describe(): Promise<string>;
}

export const limits = {
  warmPool: 0,
  maxSandboxes: 20,
  maxLifeSeconds: 86_400,
  requestsPerSecond: 100,
  maxUploadBytes: 2 ** 30,
  maxHeld: 1_000,
  waitMs: 240_000,
};

export const template = {
  image: demoImageName,
  mode: "run",
  cpus: 1,
  memoryMiB: 128,
  storageMiB: 256,
} as const;

export async function openGatewayWorld(cluster: OwnControlPlane): Promise<GatewayWorld> {
  const stack = new AsyncDisposableStack();
  const end = new AbortController();
  const { signal } = end;
  await installCrds(cluster);
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  await cluster.kubectl(["create", "namespace", "cocoon-system"]);
  const applied = await cluster.kubectl([
    "apply",
    "-f",
    join(import.meta.dirname, "../../../deploy/gateway/rbac.yaml"),
  ]);
  assert.equal(applied.code, 0, applied.stderr);
  const { world, node, killVms } = stack.use(await openRealNode(cluster));
  const namespace = world.namespace.name;
  const admin = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  const credentials = fixedCredential({ kind: "bearer", token: world.token });
  const registry = stack.use(openRegistry({ address: world.server.url, credentials }));
  const metrics = createRegistry("test");
  const log = silentLogger;
  stack.use(startOperator({ connection: admin, client: admin, registry, log, metrics, signal }));
  stack.defer(() => end.abort());
  // Before the operator and the node end: no other part ends their machines.
  stack.defer(async () => {
    const gone = await cluster.kubectl(["delete", "cocoonsets", "--all", "-n", namespace, "--timeout=240s"], {
      timeoutMs: 250_000,
    });
    assert.equal(gone.code, 0, gone.stderr);
  });
  const gatewayKubeconfig = await writeGatewayKubeconfig(cluster, stack);
  const own = stack.use(await openKubeClient({ kubeconfig: gatewayKubeconfig, signal }));
  const newKey = (where: string) => createApiKey(admin, { namespace: where, name: "test" }, { signal });
  const newGateway = async (changes: Partial<GatewayOptions> = {}) =>
    stack.use(
      await startGateway({
        client: own,
        registry,
        listen: { host: "127.0.0.1", port: 0 },
        templates: { base: template },
        seedSecret: "cocoon-gateway-seed",
        limits,
        log: process.env["GATEWAY_TEST_LOG"]
          ? createLogger({ name: "gateway", level: "debug" })
          : silentLogger,
        signal,
        ...changes,
      }),
    );
  const { url } = (await newGateway()).server;
  const key = await newKey(namespace);
  return {
    url,
    key,
    namespace,
    client: admin,
    gatewayKubeconfig,
    connection: { apiKey: key, apiUrl: url, sandboxUrl: url },
    newGateway,
    newKey,
    loseNode: async () => {
      await node.kill();
      await killVms();
    },
    returnNode: () => node.start(),
    describe: async () => {
      const shown = ["cocoonsets,pods,events", "-n", namespace, "-o", "yaml"];
      return (await cluster.kubectl(["get", ...shown])).stdout;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function writeGatewayKubeconfig(
  cluster: OwnControlPlane,
  stack: AsyncDisposableStack,
): Promise<string> {
  const token = await cluster.kubectl(["create", "token", "cocoon-gateway", "-n", "cocoon-system"]);
  assert.equal(token.code, 0, token.stderr);
  const config = parse(cluster.kubeconfig) as { users: { user: object }[] };
  const users = config.users.map((each) => ({ ...each, user: { token: token.stdout.trim() } }));
  const directory = stack.use(await temporaryDirectory());
  const kubeconfig = join(directory.path, "kubeconfig");
  await writeFile(kubeconfig, stringify({ ...config, users }), { mode: 0o600 });
  return kubeconfig;
}
