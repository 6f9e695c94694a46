/** A set that keeps a snapshot, as sandboxes that start from it see it. */
import { gatewayKey } from "@cocoon/contract";
import { sandboxSpec, type SandboxSpec, type SetObject } from "./sandbox.ts";
import type { Template } from "./templates.ts";

export interface Snapshot {
  /** Name of its set. */
  readonly name: string;
  readonly namespace: string;
  /** What the client called it; empty when it has no name. */
  readonly alias: string;
  readonly template: Template;
  /** What sandboxes of it begin with. */
  readonly defaults: Pick<SandboxSpec, "env" | "user" | "directory">;
  /** The sandbox it was made of. */
  readonly source: string;
  /** Of a named one: what names this build beside its alias. */
  readonly tags: readonly string[];
  /** Of a template that a client built. */
  readonly build: string | undefined;
  readonly createdAt: string;
  readonly uid: string;
}

/** Label of snapshots without a name. */
export const unnamed = "unnamed";
/** What a name without a tag means. */
export const defaultTag = "default";

export function writeTags(tags: readonly string[]): Readonly<Record<string, string>> {
  return { [gatewayKey.templateTags]: tags.join(",") };
}

/** Only those that are complete. */
export function tryReadSnapshot(set: SetObject): Snapshot | undefined {
  const { name = "", namespace = "", labels, creationTimestamp: createdAt = "", uid = "" } = set.metadata;
  const label = labels?.[gatewayKey.template];
  const spec = sandboxSpec.safeParse(tryParseAnnotation(set)).data;
  if (label === undefined || !spec?.machine || !isComplete(set)) return undefined;
  const { machine: template, source = "" } = spec;
  return {
    defaults: readDefaults(spec),
    name,
    namespace,
    alias: label === unnamed ? "" : label,
    template,
    source,
    tags: readTags(set),
    build: spec.build,
    createdAt,
    uid,
  };
}

export function readTags({ metadata }: SetObject): string[] {
  const text = metadata.annotations?.[gatewayKey.templateTags] ?? defaultTag;
  return text.split(",").filter((tag) => tag !== "");
}

/** Of a template that was built. The environment of a sandbox is its own: a snapshot of it does not pass it on. */
function readDefaults({ source = "", env, user, directory }: SandboxSpec): Snapshot["defaults"] {
  return {
    env: source === "" ? env : {},
    ...(user ? { user } : {}),
    ...(directory ? { directory } : {}),
  };
}

function isComplete({ metadata, spec, status }: SetObject): boolean {
  return metadata.deletionTimestamp === undefined && spec?.suspend === true && status?.phase === "Suspended";
}

function tryParseAnnotation({ metadata }: SetObject): unknown {
  try {
    return JSON.parse(metadata.annotations?.[gatewayKey.sandboxSpec] ?? "");
  } catch {
    return undefined;
  }
}
