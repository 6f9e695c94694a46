/** What `up` shows: a CocoonSet with a main agent and one sub-agent forked from it, from the built-in image. */
import { apiGroup, apiVersion } from "@cocoon/contract";
import { Fault, isFault, sleep, type Abortable } from "@cocoon/core";
import { openKubeClient, resourceType, type KubeConnection, type KubeObject } from "@cocoon/kube";
import { demoImageName, openImageLibrary } from "@cocoon/vm";
import { imageDirectory } from "./parts/node-part.ts";
import { partsDirectory } from "./parts/parts.ts";
import type { Platform } from "./platform.ts";

const demoSet = "demo";
/** The pod of its main agent. */
export const demoPod = `${demoSet}-0`;
const demoNamespace = "default";
const readyMs = 300_000;
const lookMs = 300;

interface DemoSet extends KubeObject {
  readonly spec: unknown;
  readonly status?: {
    readonly phase?: string;
    readonly readyAgents?: number;
    readonly desiredAgents?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
  };
}

const sets = resourceType<DemoSet>({
  group: apiGroup,
  version: "v1",
  kind: "CocoonSet",
  plural: "cocoonsets",
  namespaced: true,
});

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

/** Makes the demo set unless it is there, and waits until its machines are ready or asleep. */
export async function ensureDemo(platform: Platform, { signal, tell }: DemoOptions): Promise<void> {
  const { kubeconfig, context } = platform;
  await using client = await openKubeClient({ signal, kubeconfig, ...(context ? { context } : {}) });
  await createUnlessThere(client, { signal });
  const deadline = performance.now() + readyMs;
  for (;;) {
    const { status } = await client.get(sets, { namespace: demoNamespace, name: demoSet }, { signal });
    const progress = progressOf(status);
    tell(progress);
    if (status?.phase === "Running" || status?.phase === "Suspended") return;
    if (performance.now() > deadline)
      throw new Fault(
        "timeout",
        `the demo set is not ready after ${readyMs / 1000} s (${progress}); look at: npm run logs -- operator, and npm run logs -- vk-node-1`,
      );
    await sleep(lookMs, { signal });
  }
}

function progressOf({
  phase,
  readyAgents,
  desiredAgents,
  conditions,
}: NonNullable<DemoSet["status"]> = {}): string {
  const trouble = conditions?.find((each) => each.type === "Degraded" && each.status === "True");
  const counts = `${phase ?? "Pending"}, ${readyAgents ?? 0} of ${desiredAgents ?? 2} machines ready`;
  return trouble?.message ? `${counts}: ${trouble.message}` : counts;
}

async function createUnlessThere(client: KubeConnection, { signal }: Abortable): Promise<void> {
  const set: DemoSet = {
    apiVersion,
    kind: "CocoonSet",
    metadata: { name: demoSet, namespace: demoNamespace },
    spec: {
      agent: {
        image: demoImageName,
        mode: "run",
        replicas: 1,
        storage: "512Mi",
        resources: { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "1", memory: "256Mi" } },
      },
    },
  };
  try {
    await client.create(sets, set, { signal });
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error;
  }
}
