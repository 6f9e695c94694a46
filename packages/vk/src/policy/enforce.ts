/**
 * Keeps this node's rules for NetworkPolicies current, where no engine of the cluster does: on plain bridges and links. The rules stay when
 * vk-cocoon ends, as its machines do; the next start replaces them.
 */
import { writeFile } from "node:fs/promises";
import { getErrorMessage, sleep, tryReadFile, type Abortable, type Logger } from "@cocoon/core";
import {
  namespaces,
  networkPolicies,
  openCaches,
  pods,
  type KubeConnection,
  type Namespace,
  type ObjectCache,
  type Pod,
} from "@cocoon/kube";
import { runTool } from "@cocoon/vm/host";
import { compilePolicies, type ObservedPolicies, type PolicyPod } from "./compile.ts";

export interface EnforceOptions extends Abortable {
  readonly client: KubeConnection;
  readonly node: string;
  readonly log: Logger;
  /** Loads rules; default nft on this host. */
  readonly load?: (rules: string) => Promise<void>;
}

/** Changes come in bursts: pods of a set get their addresses one after the other. */
const settleMs = 50;
const retryMs = 5_000;

/** Runs until the signal. */
export async function enforcePolicies(options: EnforceOptions): Promise<void> {
  const { client, log, signal } = options;
  const load = options.load ?? ((rules) => loadRules(rules, options));
  await using caches = openCaches({ client, log });
  const sources = {
    policies: caches.open(networkPolicies, {}),
    pods: caches.open(pods, { transform: slimPod }),
    namespaces: caches.open(namespaces, { transform: slimNamespace }),
  };
  let changed = Promise.withResolvers<void>();
  for (const source of Object.values(sources)) source.subscribe(() => changed.resolve());
  await Promise.all(Object.values(sources).map((source) => source.synced({ signal })));
  const filtersBridges = await ensureBridgeFilter();
  let loaded = "";
  while (!signal.aborted) {
    changed = Promise.withResolvers<void>();
    const rules = compilePolicies({ ...observe(sources, options.node), filtersBridges });
    if (rules !== loaded) loaded = await tryLoad(load, rules, options);
    const pause = loaded === rules ? changed.promise : sleep(retryMs, { signal });
    await Promise.race([pause, aborted(signal)]);
    await sleep(settleMs, { signal });
  }
}

const bridgeFilter = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/** Turns on what Services between machines of one bridge need anyway; false where the module is not loaded. */
async function ensureBridgeFilter(): Promise<boolean> {
  const value = (await tryReadFile(bridgeFilter))?.trim();
  if (value === undefined) return false;
  if (value !== "1") await writeFile(bridgeFilter, "1");
  return true;
}

async function loadRules(rules: string, { signal }: Abortable): Promise<void> {
  await runTool("nft", ["-f", "-"], { input: rules, signal });
}

/** What is loaded now; rules that nft refuses are tried again, and the former ones stay. */
async function tryLoad(
  load: (rules: string) => Promise<void>,
  rules: string,
  { log, signal }: EnforceOptions,
): Promise<string> {
  try {
    await load(rules);
    log.debug("rules of network policies loaded");
    return rules;
  } catch (error) {
    if (!signal.aborted) log.error({ error: getErrorMessage(error) }, "network policies are not enforced");
    return "";
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

interface Sources {
  readonly policies: ObjectCache<{
    readonly metadata: Pod["metadata"];
    readonly spec?: ObservedPolicies["policies"][number]["spec"];
  }>;
  readonly pods: ObjectCache<Pod>;
  readonly namespaces: ObjectCache<Namespace>;
}

function observe(sources: Sources, node: string): Omit<ObservedPolicies, "filtersBridges"> {
  const local = new Set<PolicyPod>();
  const found: PolicyPod[] = [];
  for (const pod of sources.pods.list()) {
    const read = readPod(pod);
    if (!read) continue;
    found.push(read);
    if (pod.spec?.nodeName === node) local.add(read);
  }
  return {
    policies: [...sources.policies.list()].flatMap(({ metadata, spec }) =>
      spec ? [{ namespace: metadata.namespace ?? "", name: metadata.name ?? "", spec }] : [],
    ),
    pods: found,
    namespaces: new Map(
      [...sources.namespaces.list()].map(({ metadata }) => [metadata.name ?? "", metadata.labels ?? {}]),
    ),
    isLocal: (pod) => local.has(pod),
  };
}

/** Pods that have ended, or have the host's own address, are no peers. */
function readPod({ metadata, spec, status }: Pod): PolicyPod | undefined {
  const ip = status?.podIP ?? "";
  if (!isPeerAddress(ip) || isOver(status) || spec?.hostNetwork) return undefined;
  const { namespace = "", name = "", labels = {} } = metadata;
  return { namespace, name, labels, ip, ports: (spec?.containers ?? []).flatMap(({ ports = [] }) => ports) };
}

function isPeerAddress(ip: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(ip) && !ip.startsWith("127.");
}

function isOver(status: Pod["status"]): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Pods of the whole cluster are kept: only what rules need. */
function slimPod({ metadata, spec, status }: Pod): Pod {
  const { name, namespace, uid, resourceVersion, labels } = metadata;
  return {
    metadata: { name, namespace, uid, resourceVersion, labels } as Pod["metadata"],
    spec: {
      ...(spec?.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
      ...(spec?.hostNetwork ? { hostNetwork: true } : {}),
      containers: (spec?.containers ?? []).map(({ name: container, ports }) => ({
        name: container,
        ...(ports ? { ports } : {}),
      })),
    },
    status: {
      ...(status?.phase === undefined ? {} : { phase: status.phase }),
      ...(status?.podIP === undefined ? {} : { podIP: status.podIP }),
    },
  };
}

function slimNamespace({ metadata: { name, uid, resourceVersion, labels } }: Namespace): Namespace {
  return { metadata: { name, uid, resourceVersion, labels } as Namespace["metadata"] };
}
