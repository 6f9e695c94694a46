/** What `up` shows: a CocoonSet with a main agent and one sub-agent forked from it, from the built-in image. */
import { apiVersion } from "@cocoon/contract";
import { Fault, sleep, type Abortable, ignoreFault } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { cocoonSets, type SetObject } from "./cluster/kinds.ts";
import { setProgress } from "./cluster/set-progress.ts";
import { imageDirectory } from "./parts/node-part.ts";
import { partsDirectory } from "./parts/parts.ts";
import type { Platform } from "./platform.ts";

const key = { namespace: "default", name: "demo" };
export const demoPod = `${key.name}-0`;
const readyMs = 300_000;
const intervalMs = 300;

const demoSet: SetObject = {
  apiVersion,
  kind: "CocoonSet",
  metadata: key,
  spec: {
    agent: {
      image: demoImageName,
      replicas: 1,
      storage: "512Mi",
      resources: { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "1", memory: "256Mi" } },
    },
  },
};

export interface DemoOptions extends Abortable {
  readonly report: (text: string) => void;
}

/** Built from Debian packages the first time, found afterwards. */
export async function fetchDemoImage(
  { directory }: Platform,
  { signal, report }: DemoOptions,
): Promise<void> {
  const library = openImageLibrary({ directory: imageDirectory({ directory: partsDirectory(directory) }) });
  const onProgress = ({ doneBytes }: { readonly doneBytes: number }) =>
    report(`${(doneBytes / 1e6).toFixed(1)} MB`);
  await library.pull(demoImageName, { signal, onProgress });
  await library.resolve(demoImageName, { signal });
}

/** Creates the demo set unless it exists, and waits until its machines are ready or asleep. */
export async function ensureDemo(
  { kubeconfig, context }: Platform,
  { signal, report }: DemoOptions,
): Promise<void> {
  await using client = await openKubeClient({ signal, kubeconfig, context });
  await ignoreFault("alreadyExists", client.create(cocoonSets, demoSet, { signal }));
  const deadline = performance.now() + readyMs;
  for (;;) {
    const set = await client.get(cocoonSets, key, { signal });
    const progress = setProgress(set);
    report(progress);
    if (set.status?.phase === "Running" || set.status?.phase === "Suspended") return;
    if (performance.now() > deadline)
      throw new Fault(
        "timeout",
        `the demo set is not ready after ${readyMs / 1000} s (${progress}); look at: npm run logs -- operator, and npm run logs -- vk-node-1`,
      );
    await sleep(intervalMs, { signal });
  }
}
