/** The controller of ended Sandboxes, from when the cluster serves their API. */
import { getErrorMessage, ignoreFault, sleep } from "@cocoon/core";
import type { Caches } from "@cocoon/kube";
import { startController, watchObjects } from "@cocoon/kube/controller";
import { needsSettling, sandboxes, settleSandbox, type SettleParts } from "./settle.ts";

/** How soon an installation of agent-sandbox is noticed. */
const lookMs = 30_000;

export interface SandboxControllerOptions extends SettleParts {
  readonly caches: Caches;
  readonly scope: { readonly namespace?: string };
  readonly common: Omit<Parameters<typeof startController>[0], "name" | "watches" | "reconcile">;
  readonly signal: AbortSignal;
}

/** A cluster may never have the API: nothing waits for it. */
export function startSandboxes(options: SandboxControllerOptions, stack: AsyncDisposableStack): void {
  const ended = new AbortController();
  stack.defer(() => ended.abort());
  const signal = AbortSignal.any([options.signal, ended.signal]);
  waitThenStart({ ...options, signal }, stack).catch((error: unknown) => {
    if (!signal.aborted)
      options.log.error({ error: getErrorMessage(error) }, "Sandbox controller not started");
  });
}

async function waitThenStart(options: SandboxControllerOptions, stack: AsyncDisposableStack): Promise<void> {
  const { caches, scope, common, signal, log } = options;
  while (!(await isServed(options))) await sleep(lookMs, { signal });
  signal.throwIfAborted();
  log.info("agent-sandbox is served; snapshots of deleted Sandboxes are settled");
  stack.use(
    startController({
      ...common,
      name: "sandbox",
      concurrency: 2,
      watches: [
        watchObjects(caches.open(sandboxes, scope), { predicate: ({ object }) => needsSettling(object) }),
      ],
      reconcile: (key, context) => settleSandbox(options, key, context),
    }),
  );
}

/** Not served, and not allowed or no answer, all mean: look again. */
async function isServed({ client, scope, signal, log }: SandboxControllerOptions): Promise<boolean> {
  try {
    const list = client.list(sandboxes, { ...scope, limit: 1, signal });
    return (await ignoreFault("notFound", list)) !== undefined;
  } catch (error) {
    signal.throwIfAborted();
    log.debug({ error: getErrorMessage(error) }, "agent-sandbox not looked up");
    return false;
  }
}
