/**
 * A container's environment: `envFrom` in order (later sources win), `env` with `$(NAME)` expanded, then service variables. The
 * order is fixed, so that resolving twice gives equal pods.
 */
import { Fault } from "@cocoon/core";
import type { Container, EnvVar, Service } from "@cocoon/kube";
import type { Pod } from "../provider.ts";
import { readField, readResource, type Allocatable } from "./field-reference.ts";

/** The data of an object; `missing` when it is not there for sure. A failure to ask is thrown. */
export type DataLookup = (name: string) => Promise<Readonly<Record<string, string>> | "missing">;

export interface EnvironmentSources {
  readonly configMap: DataLookup;
  readonly secret: DataLookup;
  /** Services of the pod's namespace when it wants their links, and `default/kubernetes` always. */
  readonly services: readonly Service[];
  readonly allocatable: Allocatable;
}

interface EnvironmentNotice {
  readonly reason: string;
  readonly message: string;
}

export interface ResolvedEnvironment {
  readonly pod: Pod;
  readonly notices: readonly EnvironmentNotice[];
}

/** A mandatory object or key is missing: the pod waits. `reason` is the event's. */
export class MissingEnvironment extends Fault {
  readonly reason: string;

  constructor(reason: string, message: string) {
    super("unavailable", message);
    this.reason = reason;
  }
}

type EnvFrom = NonNullable<Container["envFrom"]>[number];
type ValueFrom = NonNullable<EnvVar["valueFrom"]>;
type KeySelector = NonNullable<ValueFrom["configMapKeyRef"]>;
type Kind = "ConfigMap" | "Secret";

export async function resolveEnvironment(
  pod: Pod,
  sources: EnvironmentSources,
): Promise<ResolvedEnvironment> {
  const notices: EnvironmentNotice[] = [];
  const links = serviceVariables(sources.services);
  const resolve = async (container: Container): Promise<Container> => {
    const resolver = new ContainerEnvironment({ pod, container, sources, links, notices });
    const { envFrom: _resolved, ...rest } = container;
    return { ...rest, env: await resolver.resolve() };
  };
  const containers = await Promise.all(pod.spec.containers.map(resolve));
  const initContainers = pod.spec.initContainers && (await Promise.all(pod.spec.initContainers.map(resolve)));
  return {
    pod: { ...pod, spec: { ...pod.spec, containers, ...(initContainers ? { initContainers } : {}) } },
    notices,
  };
}

interface Context {
  readonly pod: Pod;
  readonly container: Container;
  readonly sources: EnvironmentSources;
  readonly links: ReadonlyMap<string, string>;
  readonly notices: EnvironmentNotice[];
}

class ContainerEnvironment {
  readonly #context: Context;
  readonly #values = new Map<string, string>();

  constructor(context: Context) {
    this.#context = context;
  }

  async resolve(): Promise<EnvVar[]> {
    for (const source of this.#context.container.envFrom ?? []) await this.#addSource(source);
    for (const variable of this.#context.container.env ?? []) await this.#addVariable(variable);
    for (const [name, value] of this.#context.links)
      if (!this.#values.has(name)) this.#values.set(name, value);
    return [...this.#values].map(([name, value]) => ({ name, value }));
  }

  async #addSource(source: EnvFrom): Promise<void> {
    const [kind, reference] = source.configMapRef
      ? (["ConfigMap", source.configMapRef] as const)
      : (["Secret", source.secretRef] as const);
    if (!reference) return;
    const data = await this.#read(kind, reference);
    if (!data) return;
    const entries = Object.entries(data).map(
      ([key, value]) => [`${source.prefix ?? ""}${key}`, value] as const,
    );
    const invalid = entries.filter(([name]) => !isEnvironmentName(name)).map(([name]) => name);
    if (invalid.length > 0) {
      const message = `Keys [${invalid.toSorted().join(", ")}] from the EnvFrom ${kind} ${this.#context.pod.metadata.namespace}/${reference.name} were skipped since they are considered invalid environment variable names.`;
      this.#context.notices.push({ reason: "InvalidEnvironmentVariableNames", message });
    }
    const valid = entries
      .filter(([name]) => isEnvironmentName(name))
      .toSorted(([left], [right]) => (left < right ? -1 : 1));
    for (const [name, value] of valid) this.#set(name, value);
  }

  async #addVariable(variable: EnvVar): Promise<void> {
    if (variable.valueFrom === undefined || variable.valueFrom === null) {
      const known = (name: string) => this.#values.get(name) ?? this.#context.links.get(name);
      this.#set(variable.name, expandReferences(variable.value ?? "", known));
      return;
    }
    const value = await this.#readFrom(variable.valueFrom);
    if (value !== undefined) this.#set(variable.name, value);
  }

  async #readFrom(from: ValueFrom): Promise<string | undefined> {
    const { pod, container, sources } = this.#context;
    if (from.fieldRef) return readField(pod, from.fieldRef.fieldPath);
    if (from.resourceFieldRef)
      return readResource(from.resourceFieldRef, { pod, container, allocatable: sources.allocatable });
    if (from.configMapKeyRef) return this.#readKey("ConfigMap", from.configMapKeyRef);
    return from.secretKeyRef ? this.#readKey("Secret", from.secretKeyRef) : undefined;
  }

  async #readKey(kind: Kind, reference: KeySelector): Promise<string | undefined> {
    const data = await this.#read(kind, reference);
    if (!data) return undefined;
    if (Object.hasOwn(data, reference.key)) return data[reference.key];
    this.#missing(
      `${kind}KeyNotFound`,
      reference.optional ?? false,
      `${kind} ${reference.name} has no key ${reference.key}`,
    );
    return undefined;
  }

  async #read(
    kind: Kind,
    { name = "", optional = false }: Omit<KeySelector, "key">,
  ): Promise<Readonly<Record<string, string>> | undefined> {
    const { sources } = this.#context;
    const data = await (kind === "ConfigMap" ? sources.configMap(name) : sources.secret(name));
    if (data !== "missing") return data;
    this.#missing(`${kind}NotFound`, optional, `${kind} ${name} not found`);
    return undefined;
  }

  #missing(what: string, optional: boolean, message: string): void {
    if (!optional) throw new MissingEnvironment(`Mandatory${what}`, message);
    this.#context.notices.push({ reason: `Optional${what}`, message: `skipped: ${message}` });
  }

  /** A later value wins and takes the later place: `env` may refer to what came before it. */
  #set(name: string, value: string): void {
    this.#values.delete(name);
    this.#values.set(name, value);
  }
}

/** `$(NAME)` in a value, as Kubernetes expands it: `$$` is a literal dollar, what is unknown stays as it is. */
export function expandReferences(text: string, lookUp: (name: string) => string | undefined): string {
  return text.replaceAll(/\$(\$|\(([^)]*)\))/g, (whole, kind: string, name: string | undefined) => {
    if (kind === "$") return "$";
    return lookUp(name ?? "") ?? whole;
  });
}

/** Names that a process can have in its environment; Kubernetes allows every printable character but `=`. */
function isEnvironmentName(name: string): boolean {
  return /^[!-<>-~]+$/.test(name);
}

/** The variables that tell a container about the services of its namespace, in the old Docker-links style. */
type ServicePort = NonNullable<NonNullable<Service["spec"]>["ports"]>[number];

/** Variables of all services, sorted by service name so that the result does not depend on cache order. */
function serviceVariables(services: readonly Service[]): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  const sorted = services.toSorted((left, right) =>
    (left.metadata.name ?? "") < (right.metadata.name ?? "") ? -1 : 1,
  );
  for (const service of sorted) addService(variables, service);
  return variables;
}

function addService(variables: Map<string, string>, service: Service): void {
  const address = service.spec?.clusterIP;
  const ports = service.spec?.ports ?? [];
  const [first] = ports;
  if (!address || address === "None" || !first) return; // headless: nothing to point at
  const name = variableName(service.metadata.name ?? "");
  variables.set(`${name}_SERVICE_HOST`, address);
  variables.set(`${name}_SERVICE_PORT`, String(first.port));
  for (const port of ports) {
    if (port.name) variables.set(`${name}_SERVICE_PORT_${variableName(port.name)}`, String(port.port));
  }
  variables.set(`${name}_PORT`, formatUrl(address, first));
  for (const port of ports) {
    const prefix = `${name}_PORT_${port.port}_${getProtocol(port)}`;
    variables.set(prefix, formatUrl(address, port));
    variables.set(`${prefix}_PROTO`, getProtocol(port).toLowerCase());
    variables.set(`${prefix}_PORT`, String(port.port));
    variables.set(`${prefix}_ADDR`, address);
  }
}

function getProtocol(port: ServicePort): string {
  return (port.protocol ?? "TCP").toUpperCase();
}

function formatUrl(address: string, port: ServicePort): string {
  return `${getProtocol(port).toLowerCase()}://${hostText(address)}:${port.port}`;
}

function hostText(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll(/[-.]/g, "_");
}
