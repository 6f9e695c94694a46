/** Claims of agent-sandbox as a client sees them: created, and watched until they are Ready. */
import { sandboxExtensionsGroup, sandboxVersion } from "@cocoon/contract/agent-sandbox";
import { Fault, silentLogger, type Abortable } from "@cocoon/core";
import { isConditionTrue } from "@cocoon/core/conditions";
import { openCaches, openKubeClient, resourceType, type Condition, type KubeObject } from "@cocoon/kube";
import { eventually } from "@cocoon/testkit";
import type { SandboxWorld } from "../../test/integration/operator/sandbox-world.ts";

interface Claim extends KubeObject {
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly sandbox?: { readonly name?: string };
  };
}

const claims = resourceType<Claim>({
  group: sandboxExtensionsGroup,
  version: sandboxVersion,
  kind: "SandboxClaim",
});

export interface Served {
  /** Of the Sandbox that the claim got. */
  readonly sandbox: string;
  readonly ms: number;
}

export interface Claims extends AsyncDisposable {
  /** Creates a claim, and waits until a watch shows it Ready. */
  take(name: string, pool: string): Promise<Served>;
  /** Deletes it, and waits until its Sandbox is gone. */
  giveBack(name: string): Promise<void>;
}

const readyMs = 300_000;

export async function openClaims(world: SandboxWorld, { signal }: Abortable): Promise<Claims> {
  const stack = new AsyncDisposableStack();
  const client = stack.use(await openKubeClient({ kubeconfig: world.cluster.kubeconfigPath, signal }));
  const caches = stack.use(openCaches({ client, log: silentLogger }));
  const { name: namespace } = world.namespace;
  const watched = caches.open(claims, { namespace });
  await watched.synced({ signal });
  const ready = (name: string) =>
    new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Fault("timeout", `claim ${name} is not Ready`)), readyMs);
      const following = watched.subscribe(({ object: { metadata, status } }) => {
        if (metadata.name !== name || !isConditionTrue(status?.conditions, "Ready")) return;
        clearTimeout(timer);
        queueMicrotask(() => following[Symbol.dispose]());
        resolve(status?.sandbox?.name ?? "");
      });
    });
  return {
    take: async (name, pool) => {
      const began = performance.now();
      const served = ready(name);
      const claim = { metadata: { namespace, name }, spec: { warmPoolRef: { name: pool } } };
      await client.create(claims, claim, { signal });
      const sandbox = await served;
      return { sandbox, ms: performance.now() - began };
    },
    giveBack: async (name) => {
      const { status } = (await world.get("sandboxclaim", name)) ?? {};
      await world.kubectl("delete", "sandboxclaim", name, "--wait=false");
      const sandbox = status?.sandbox?.name ?? name;
      await eventually(
        async () => {
          if (await world.get("sandbox", sandbox)) throw new Fault("conflict", `${sandbox} is still there`);
        },
        { timeoutMs: readyMs },
      );
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
