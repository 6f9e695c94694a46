/**
 * A container's environment: `envFrom` in order (later sources win), then `env` in order with `$(NAME)` expanded,
 * then service variables where nothing else has the name. The result is in a fixed order, so that resolving
 * twice gives equal pods.
 */
import { Fault } from "@cocoon/core";
import * as z from "zod";
import type { Container, EnvVar, Pod } from "../provider.ts";
import { expandReferences, isEnvironmentName } from "./expand.ts";
import { readField, readResource, type Allocatable } from "./field-reference.ts";
import { serviceVariables, type Service } from "./service-variables.ts";

/** The data of an object; `missing` when it is not there for sure. A failure to ask is thrown. */
export type DataLookup = (name: string) => Promise<Readonly<Record<string, string>> | "missing">;

export interface EnvironmentSources {
  readonly configMap: DataLookup;
  /** Values decoded. */
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
  /** Warnings for the pod's events. */
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

const keySelector = z.object({
  name: z.string().default(""),
  key: z.string(),
  optional: z.boolean().default(false),
});
const valueFromSchema = z.object({
  configMapKeyRef: keySelector.optional(),
  secretKeyRef: keySelector.optional(),
  fieldRef: z.object({ fieldPath: z.string() }).optional(),
  resourceFieldRef: z
    .object({
      resource: z.string(),
      containerName: z.string().optional(),
      divisor: z.union([z.string(), z.number()]).optional(),
    })
    .optional(),
});
const sourceReference = z.object({ name: z.string().default(""), optional: z.boolean().default(false) });
const envFromSchema = z.object({
  prefix: z.string().default(""),
  configMapRef: sourceReference.optional(),
  secretRef: sourceReference.optional(),
});

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

  async #addSource(raw: unknown): Promise<void> {
    const source = envFromSchema.parse(raw);
    const [kind, reference] = source.configMapRef
      ? (["ConfigMap", source.configMapRef] as const)
      : (["Secret", source.secretRef] as const);
    if (!reference) return;
    const data = await this.#read(kind, reference);
    if (!data) return;
    const entries = Object.entries(data).map(([key, value]) => [source.prefix + key, value] as const);
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
    const value = await this.#readFrom(valueFromSchema.parse(variable.valueFrom));
    if (value !== undefined) this.#set(variable.name, value);
  }

  async #readFrom(from: z.infer<typeof valueFromSchema>): Promise<string | undefined> {
    const { pod, container, sources } = this.#context;
    if (from.fieldRef) return readField(pod, from.fieldRef.fieldPath);
    if (from.resourceFieldRef) {
      const { containerName, divisor, resource } = from.resourceFieldRef;
      const reference = {
        resource,
        ...(containerName ? { containerName } : {}),
        ...(divisor === undefined ? {} : { divisor }),
      };
      return readResource(reference, { pod, container, allocatable: sources.allocatable });
    }
    if (from.configMapKeyRef) return this.#readKey("ConfigMap", from.configMapKeyRef);
    return from.secretKeyRef ? this.#readKey("Secret", from.secretKeyRef) : undefined;
  }

  async #readKey(kind: Kind, reference: z.infer<typeof keySelector>): Promise<string | undefined> {
    const data = await this.#read(kind, reference);
    if (!data) return undefined;
    if (Object.hasOwn(data, reference.key)) return data[reference.key];
    this.#missing(
      `${kind}KeyNotFound`,
      reference.optional,
      `${kind} ${reference.name} has no key ${reference.key}`,
    );
    return undefined;
  }

  async #read(
    kind: Kind,
    reference: { readonly name: string; readonly optional: boolean },
  ): Promise<Readonly<Record<string, string>> | undefined> {
    const { sources } = this.#context;
    const data = await (kind === "ConfigMap"
      ? sources.configMap(reference.name)
      : sources.secret(reference.name));
    if (data !== "missing") return data;
    this.#missing(`${kind}NotFound`, reference.optional, `${kind} ${reference.name} not found`);
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
