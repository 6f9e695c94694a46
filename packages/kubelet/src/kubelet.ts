/** A whole virtual kubelet: node, pods and HTTPS API around one provider. */
import type { ServerOptions } from "node:https";
import { Fault, type Logger, type Registry, type RunningServer } from "@cocoon/core";
import {
  openCaches,
  pods as podType,
  type KubeClient,
  type KubeConnection,
  type ResourceType,
} from "@cocoon/kube";
import type { ServingCertificates } from "@cocoon/kube/certificates";
import { startEventRecorder } from "@cocoon/kube/controller";
import { createAuthenticator } from "./api/authentication.ts";
import { createAuthorizer } from "./api/authorization.ts";
import { startKubeletApi } from "./api/server.ts";
import { clusterEnvironment } from "./environment/cluster-sources.ts";
import { startNodeController, type NodeController } from "./node/node-controller.ts";
import type { NodeDescription } from "./node/node-description.ts";
import { startPodController } from "./pods/pod-controller.ts";
import type { Pod, PodProvider } from "./provider.ts";
import type { StreamTimes } from "./stream/index.ts";

export interface KubeletOptions {
  readonly client: KubeClient & KubeConnection;
  readonly nodeName: string;
  readonly provider: PodProvider;
  /** How the node is; the port of the API is filled in. Throwing means that the provider is not well. */
  readonly describe: (options: {
    readonly signal: AbortSignal;
  }) => Promise<Omit<NodeDescription, "kubeletPort">>;
  readonly api: {
    readonly host: string;
    readonly port: number;
    readonly tls: ServerOptions;
    readonly certificates?: ServingCertificates;
    readonly times?: StreamTimes;
  };
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly registry?: Registry;
  /** What `/configz` shows. */
  readonly configuration?: unknown;
  /** Who the events say they are from. */
  readonly component?: string;
  readonly podWorkers?: number;
}

export interface Kubelet extends AsyncDisposable {
  readonly apiPort: number;
  /** The node changed: its status is looked at now. */
  touchNode(): void;
  touchPod(key: { readonly namespace?: string | undefined; readonly name: string }): void;
  /** Takes the node out of the cluster; pods must be gone or moved before. */
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
  const allocatable = () => described().allocatable;
  const podController = stack.use(
    startPodController({
      client,
      source,
      provider,
      resolve: clusterEnvironment({ client, allocatable, signal }),
      allocatable,
      hostIp: () => described().addresses.find((each) => each.type === "InternalIP")?.address,
      events,
      log,
      signal,
      ...registry,
      ...(options.podWorkers ? { concurrency: options.podWorkers } : {}),
    }),
  );
  await podController.ready;
  const parts = stack.move();
  return {
    apiPort: api.port,
    touchNode: () => node.touch(),
    touchPod: (key) => podController.touch(key),
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

type Description = Omit<NodeDescription, "kubeletPort">;

/** The node first: pods are only bound to a node that exists, and are checked against what it can give. */
async function register(
  options: KubeletOptions,
  kubeletPort: number,
): Promise<{ node: NodeController; described: () => Description }> {
  let newest: Description | undefined;
  const node = startNodeController({
    client: options.client,
    name: options.nodeName,
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
