/** The machine that `up` shows: a pod on the first node that can take it, from the built-in image. */
import { annotation, defaultPool, hostTaint, machineContainer, nodeLabel } from "@cocoon/contract";
import { Fault, isFault, sleep, type Abortable } from "@cocoon/core";
import { openKubeClient, pods, type KubeConnection, type Pod } from "@cocoon/kube";
import { demoImageName, openImageLibrary } from "@cocoon/vm";
import { imageDirectory } from "./parts/node-part.ts";
import { partsDirectory } from "./parts/parts.ts";
import type { Platform } from "./platform.ts";

export const demoPod = "demo";
const demoNamespace = "default";
const readyMs = 300_000;
const lookMs = 300;

export interface DemoOptions extends Abortable {
  readonly tell: (text: string) => void;
}

/** Built from Debian packages the first time, found afterwards. */
export async function fetchDemoImage({ directory }: Platform, { signal, tell }: DemoOptions): Promise<void> {
  const library = openImageLibrary({ directory: imageDirectory({ directory: partsDirectory(directory) }) });
  await library.pull(demoImageName, { signal, onProgress: ({ doneBytes }) => tell(megabytes(doneBytes)) });
  await library.resolve(demoImageName, { signal });
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Makes the demo pod unless it is there, and waits until its machine is ready or asleep. */
export async function ensureDemoPod(platform: Platform, { signal, tell }: DemoOptions): Promise<void> {
  const { kubeconfig, context } = platform;
  await using client = await openKubeClient({ signal, kubeconfig, ...(context ? { context } : {}) });
  await createUnlessThere(client, { signal });
  const deadline = performance.now() + readyMs;
  for (;;) {
    const pod = await client.get(pods, { namespace: demoNamespace, name: demoPod }, { signal });
    const state = pod.metadata.annotations?.[annotation.lifecycleState] ?? "waiting for a node";
    const message = pod.metadata.annotations?.[annotation.lifecycleStateMessage] ?? "";
    tell(message === "" ? state : `${state}: ${message}`);
    if (state === "ready" || state === "hibernated") return;
    if (performance.now() > deadline)
      throw new Fault(
        "timeout",
        `the demo machine is not ready after ${readyMs / 1000} s (${state} ${message}); look at: npm run logs -- vk-node-1`,
      );
    await sleep(lookMs, { signal });
  }
}

async function createUnlessThere(client: KubeConnection, { signal }: Abortable): Promise<void> {
  try {
    await client.create(pods, demoObject(), { signal });
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error;
  }
}

function demoObject(): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: demoPod,
      namespace: demoNamespace,
      annotations: {
        [annotation.vmName]: `vk-${demoNamespace}-${demoPod}`,
        [annotation.managed]: "true",
        [annotation.mode]: "run",
        [annotation.image]: demoImageName,
        [annotation.storage]: "512Mi",
      },
    },
    spec: {
      nodeSelector: { [nodeLabel.pool]: defaultPool },
      tolerations: [{ key: hostTaint.key, operator: "Exists" }],
      containers: [
        {
          name: machineContainer,
          image: demoImageName,
          resources: { requests: { cpu: "250m", memory: "256Mi" }, limits: { cpu: "1", memory: "256Mi" } },
        },
      ],
    },
  };
}
