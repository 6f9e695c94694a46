/** The pod of a Sandbox, and what of its metadata follows the Sandbox while it lives. Pure. */
import { annotation, completeVmSpec, sandboxVmName } from "@cocoon/contract";
import {
  isReservedSandboxKey,
  sandboxAnnotation,
  sandboxHash,
  sandboxLabel,
  type Sandbox,
} from "@cocoon/contract/agent-sandbox";
import type { Pod, PodSpec } from "@cocoon/kube";
import { controllerReference } from "@cocoon/kube/controller";
import { sandboxes } from "./settle.ts";

type Texts = Readonly<Record<string, string>>;
type Changes = Record<string, string | null>;

/** Sandboxes that are served here are machines, unless their template names another runtime. */
const defaultRuntimeClass = "cocoon";
const creators: ReadonlySet<string> = new Set(["python-client", "go-client", "controller"]);
/** Of pods in a warm pool: a drain may take them. */
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const traceContext = "opentelemetry.io/trace-context";

export function buildSandboxPod(sandbox: Sandbox): Pod {
  const { metadata, spec } = sandbox;
  const podSpec = spec.podTemplate.spec as unknown as PodSpec;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: metadata.namespace ?? "",
      name: metadata.name ?? "",
      labels: wantedLabels(sandbox),
      annotations: machineAnnotations(sandbox, wantedAnnotations(sandbox)),
      ownerReferences: [controllerReference(sandboxes, sandbox)],
    },
    spec: { runtimeClassName: defaultRuntimeClass, ...podSpec },
  };
}

/** The webhook writes the same; here a machine has its name also where pods are admitted without it. */
function machineAnnotations({ metadata, spec }: Sandbox, given: Texts): Texts {
  const { containers = [] } = spec.podTemplate.spec as unknown as Partial<PodSpec>;
  return {
    [annotation.snapshotPolicy]: "never",
    ...completeVmSpec(given, containers[0]?.image ?? ""),
    ...given,
    [annotation.vmName]: sandboxVmName(metadata.namespace ?? "", metadata.uid ?? ""),
  };
}

/** The merge patch that brings the pod's metadata to what the Sandbox says; undefined when it is so already. */
export function podMetadataPatch(
  sandbox: Sandbox,
  pod: Pod,
): { readonly labels: Changes; readonly annotations: Changes } | undefined {
  const labels = changes(pod.metadata.labels, {
    wanted: wantedLabels(sandbox),
    managed: [...split(pod, sandboxAnnotation.propagatedLabels), ...ownLabels],
  });
  const annotations = changes(pod.metadata.annotations, {
    wanted: wantedAnnotations(sandbox),
    managed: [...split(pod, sandboxAnnotation.propagatedAnnotations), ...ownAnnotations],
  });
  const isSame = Object.keys(labels).length === 0 && Object.keys(annotations).length === 0;
  return isSame ? undefined : { labels, annotations };
}

const ownLabels = [sandboxLabel.warmPool, sandboxLabel.templateRefHash, sandboxLabel.createdBy];
const ownAnnotations = [safeToEvict, annotation.env, annotation.pause];

function wantedLabels({ metadata, spec }: Sandbox): Texts {
  const own = metadata.labels ?? {};
  const createdBy = own[sandboxLabel.createdBy];
  return {
    ...passedOn(spec.podTemplate.metadata?.labels),
    [sandboxLabel.nameHash]: sandboxHash(metadata.name ?? ""),
    ...pick(own, [sandboxLabel.warmPool, sandboxLabel.templateRefHash]),
    ...(createdBy === undefined
      ? {}
      : { [sandboxLabel.createdBy]: creators.has(createdBy) ? createdBy : "unknown" }),
  };
}

function wantedAnnotations({ metadata, spec }: Sandbox): Texts {
  const labels = passedOn(spec.podTemplate.metadata?.labels);
  const annotations = passedOn(spec.podTemplate.metadata?.annotations);
  const inPool = metadata.labels?.[sandboxLabel.warmPool] !== undefined;
  return {
    ...(inPool ? { [safeToEvict]: "true" } : {}),
    ...annotations,
    ...pick(metadata.annotations ?? {}, [annotation.env, annotation.pause]),
    ...joined(sandboxAnnotation.propagatedLabels, labels),
    ...joined(sandboxAnnotation.propagatedAnnotations, annotations),
  };
}

function joined(key: string, texts: Texts): Texts {
  const keys = Object.keys(texts).toSorted();
  return keys.length === 0 ? {} : { [key]: keys.join(",") };
}

function passedOn(texts: Texts | undefined): Texts {
  return Object.fromEntries(
    Object.entries(texts ?? {}).filter(([key]) => !isReservedSandboxKey(key) && key !== traceContext),
  );
}

function pick(texts: Texts, keys: readonly string[]): Texts {
  return Object.fromEntries(keys.flatMap((key) => (texts[key] === undefined ? [] : [[key, texts[key]]])));
}

function split({ metadata }: Pod, key: string): readonly string[] {
  const text = metadata.annotations?.[key] ?? "";
  return text === "" ? [] : [key, ...text.split(",")];
}

/** Other keys belong to other writers. */
function changes(
  current: Texts | undefined,
  { wanted, managed }: { readonly wanted: Texts; readonly managed: readonly string[] },
): Changes {
  const set = Object.entries(wanted).filter(([key, value]) => current?.[key] !== value);
  const removed = managed.filter((key) => wanted[key] === undefined && current?.[key] !== undefined);
  return { ...Object.fromEntries(set), ...Object.fromEntries(removed.map((key) => [key, null])) };
}
