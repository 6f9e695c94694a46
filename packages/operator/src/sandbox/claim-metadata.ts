/** What a claim adds to the Sandbox that it gets: labels, annotations and environment, with their rules. Pure. */
import { annotation } from "@cocoon/contract";
import { sandboxLabel, type SandboxClaim, type SandboxTemplate } from "@cocoon/contract/agent-sandbox";
import type { Container, PodSpec } from "@cocoon/kube";

type Texts = Readonly<Record<string, string>>;
type ClaimVariable = NonNullable<SandboxClaim["spec"]["env"]>[number];

/** A claim that cannot be served, with the reason of its condition. */
export class ClaimRefusal extends Error {
  override readonly name = "ClaimRefusal";
  readonly reason: string;

  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}

const labelDomain = "sandbox.users.io";
const refusedDomains = ["kubernetes.io", "k8s.io", "agents.x-k8s.io"];
const allowedAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/** Metadata of the Sandbox's podTemplate: the template's, then the claim's. */
export function mergeMetadata(
  template: SandboxTemplate,
  { metadata, spec }: SandboxClaim,
): { readonly labels: Texts; readonly annotations: Texts } {
  const given = template.spec.podTemplate.metadata;
  const { labels = {}, annotations = {} } = spec.additionalPodMetadata ?? {};
  for (const key of Object.keys(labels)) assertLabel(key);
  for (const key of Object.keys(annotations)) assertAnnotation(key);
  assertNoOverride("label", labels, given?.labels);
  assertNoOverride("annotation", annotations, given?.annotations);
  return {
    labels: { ...given?.labels, ...labels, [sandboxLabel.claimUid]: metadata.uid ?? "" },
    annotations: { ...given?.annotations, ...annotations },
  };
}

function isBelow(key: string, domain: string): boolean {
  const [found = ""] = key.split("/", 1);
  return key.includes("/") && (found === domain || found.endsWith(`.${domain}`));
}

function assertLabel(key: string): void {
  if (isBelow(key, labelDomain)) return;
  throw new ClaimRefusal(
    "InvalidMetadata",
    `spec.additionalPodMetadata.labels: "${key}" must have the domain ${labelDomain} or one below it`,
  );
}

function assertAnnotation(key: string): void {
  if (key === allowedAnnotation || !refusedDomains.some((domain) => isBelow(key, domain))) return;
  throw new ClaimRefusal("InvalidMetadata", `spec.additionalPodMetadata.annotations: "${key}" is reserved`);
}

function assertNoOverride(what: string, added: Texts, given: Texts | undefined): void {
  for (const [key, value] of Object.entries(added))
    if (given?.[key] !== undefined && given[key] !== value)
      throw new ClaimRefusal("ReconcilerError", `${what} "${key}" of the template cannot be overridden`);
}

/** The pod's containers with the claim's environment; the same array when there is none. */
export function injectEnv(template: SandboxTemplate, { spec }: SandboxClaim): readonly Container[] {
  const { containers } = template.spec.podTemplate.spec as unknown as PodSpec;
  const { env = [] } = spec;
  if (env.length === 0) return containers;
  const policy = template.spec.envVarsInjectionPolicy;
  if (policy === "Disallowed")
    throw new ClaimRefusal(
      "EnvVarsInjectionRejected",
      "spec.env: the template does not allow it; set its envVarsInjectionPolicy",
    );
  const unknown = env.find(({ containerName }) => containerName && !findContainer(containers, containerName));
  if (unknown)
    throw new ClaimRefusal("ReconcilerError", `spec.env: no container is called ${unknown.containerName}`);
  return containers.map((container, index) => {
    const added = env.filter(({ containerName }) =>
      containerName ? containerName === container.name : index === 0,
    );
    return added.length === 0 ? container : withEnv(container, added, policy);
  });
}

function findContainer(containers: readonly Container[], name: string): Container | undefined {
  return containers.find((container) => container.name === name);
}

// oxlint-disable-next-line max-params -- what, with what, by which rule
function withEnv(
  container: Container,
  added: readonly ClaimVariable[],
  policy: "Allowed" | "Overrides",
): Container {
  const names = new Set(added.map(({ name }) => name));
  const present = container.env ?? [];
  if (policy === "Allowed" && (container.envFrom ?? []).length > 0)
    throw new ClaimRefusal(
      "ReconcilerError",
      `spec.env: container ${container.name} has envFrom; the policy must be Overrides`,
    );
  const overridden = present.find(({ name }) => names.has(name));
  if (policy === "Allowed" && overridden)
    throw new ClaimRefusal(
      "ReconcilerError",
      `spec.env: ${overridden.name} is set by the template; the policy must be Overrides`,
    );
  const values = added.map(({ name, value }) => ({ name, value: value ?? "" }));
  return { ...container, env: [...present.filter(({ name }) => !names.has(name)), ...values] };
}

/** For the machine that runs already: the kubelet gives it to the guest. */
export function envAnnotation({ spec }: SandboxClaim): Texts {
  const { env = [] } = spec;
  if (env.length === 0) return {};
  return {
    [annotation.env]: JSON.stringify(Object.fromEntries(env.map(({ name, value }) => [name, value ?? ""]))),
  };
}
