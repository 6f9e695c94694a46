/** A whole virtual kubelet: node, pods and HTTPS API around one provider. */
import { Fault, type Logger, type Registry, type RunningServer, type Abortable } from "@cocoon/core";
import {
  openCaches,
  pods as podType,
  type KubeClient,
  type KubeConnection,
  type ResourceType,
} from "@cocoon/kube";
import { startEventRecorder } from "@cocoon/kube/controller";
import { createAuthenticator, createAuthorizer } from "./api/access.ts";
import { startKubeletApi, type KubeletApiOptions } from "./api/server.ts";
import { clusterEnvironment } from "./environment/cluster-sources.ts";
import { NodeController } from "./node/node-controller.ts";
import type { NodeDescription } from "./node/node-description.ts";
import { PodController } from "./pods/pod-controller.ts";
import type { Pod, PodProvider } from "./provider.ts";

type Description = Omit<NodeDescription, "kubeletPort">;

export interface KubeletOptions {
  readonly client: KubeClient & KubeConnection;
  readonly nodeName: string;
  /** Identity of this host and its machines, see `ensureMachineId`: two hosts must not share a node name. */
  readonly machineId: string;
  readonly provider: PodProvider;
  /** How the node is; the port of the API is filled in. Throwing means that the provider is not well. */
  readonly describe: (options: Abortable) => Promise<Description>;
  readonly api: Pick<KubeletApiOptions, "host" | "port" | "tls" | "certificates" | "times">;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly registry?: Registry;
  readonly configuration?: unknown;
  /** Who the events say they are from. */
  readonly component?: string;
  /** Called once the node name belongs to this host, before any pod is handed to the provider. Its failure ends the start. */
  readonly onRegistered?: (options: Abortable) => Promise<void>;
}

export interface Kubelet extends AsyncDisposable {
  readonly apiPort: number;
  /** Connects to the kubelet API as the API server does; throws when no answer comes. Fits `ReadyCheck`. */
  checkListener(): Promise<void>;
  touchNode(): void;
  touchPod(key: { readonly namespace?: string | undefined; readonly name: string }): void;
  /** Rejects when another host has taken over the node name; never resolves. */
  readonly failed: Promise<never>;
  removeNode(): Promise<void>;
}

/** Resolves when the node is registered and pods are being worked on. Ending it leaves the provider's pods alone. */
export async function startKubelet(options: KubeletOptions): Promise<Kubelet> {
  const { client, nodeName, provider, log, signal } = options;
  const registry = options.registry ? { registry: options.registry } : {};
  await using stack = new AsyncDisposableStack();
  const caches = stack.use(openCaches({ client, log }));
  const source = stack.use(caches.open(pods, { fieldSelector: `spec.nodeName=${nodeName}` }));
  const component = options.component ?? "virtual-kubelet";
  const events = stack.use(startEventRecorder({ client, log, component, host: nodeName }));
  const api = stack.use(await startApi(options, () => [...source.list()]));
  await source.synced({ signal });
  const { node, described } = await register(options, api.port);
  stack.use(node);
  await options.onRegistered?.({ signal });
  const allocatable = () => described().allocatable;
  const podController = stack.use(
    new PodController({
      client,
      source,
      provider,
      resolve: clusterEnvironment({ client, allocatable, signal }),
      allocatable,
      isCutOff: (check) => node.isCutOff(check),
      hostIp: () => described().addresses.find((each) => each.type === "InternalIP")?.address,
      events,
      log,
      signal,
      ...registry,
    }),
  );
  await podController.ready;
  const parts = stack.move();
  return {
    apiPort: api.port,
    checkListener: () => api.checkListener({ path: "/healthz", timeoutMs: 4_000 }),
    touchNode: () => node.touch(),
    touchPod: (key) => podController.touch(key),
    failed: node.failed,
    removeNode: () => node.remove(),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

const pods = podType as unknown as ResourceType<Pod>;

function startApi(options: KubeletOptions, assignedPods: () => readonly Pod[]): Promise<RunningServer> {
  const { client, nodeName, log, registry } = options;
  return startKubeletApi({
    ...options.api,
    provider: options.provider,
    authenticate: createAuthenticator(client, log),
    authorize: createAuthorizer(client, nodeName),
    assignedPods,
    configuration: options.configuration,
    log,
    ...(registry ? { registry } : {}),
  });
}

/** The node first: pods are only bound to a node that exists, and are checked against what it can give. */
async function register(
  options: KubeletOptions,
  kubeletPort: number,
): Promise<{ node: NodeController; described: () => Description }> {
  let newest: Description | undefined;
  const node = new NodeController({
    client: options.client,
    name: options.nodeName,
    machineId: options.machineId,
    log: options.log,
    describe: async (describeOptions) => {
      newest = await options.describe(describeOptions);
      return { ...newest, kubeletPort };
    },
  });
  await node.ready;
  const described = (): Description => {
    if (!newest) throw new Fault("internal", "the node was registered without a description");
    return newest;
  };
  return { node, described };
}
