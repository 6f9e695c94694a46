/** Events as core/v1, which `kubectl describe` reads and roles usually allow, with the fields of events.k8s.io/v1 as well. */
import { createHash, randomBytes } from "node:crypto";
import { formatMicros, formatSeconds } from "@cocoon/core/conditions";
import type { CoreEvent, ObjectReference } from "../builtin-objects.ts";
import { formatApiVersion, resourceType, type KubeObject, type ResourceType } from "../object.ts";

export type EventReference = ObjectReference &
  Required<Pick<ObjectReference, "apiVersion" | "kind" | "name">>;

export const coreEvents = resourceType<CoreEvent>({ group: "", version: "v1", kind: "Event" });

export interface EventInput {
  readonly type: "Normal" | "Warning";
  /** A CamelCase word that programs may rely on. */
  readonly reason: string;
  readonly message: string;
  readonly action?: string;
}

export function referenceTo(type: ResourceType<KubeObject>, object: KubeObject): EventReference {
  const { namespace, name = "", uid, resourceVersion } = object.metadata;
  return {
    apiVersion: formatApiVersion(type),
    kind: type.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

/** The server's limits; longer texts are cut, not refused. */
const maxReason = 128;
const maxMessage = 1_024;
const maxInstance = 128;
const maxNamePrefix = 236;

export function cut(event: EventInput): Required<EventInput> {
  const { type, reason, message, action = reason } = event;
  return {
    type,
    reason: cutText(reason, maxReason),
    message: cutText(message, maxMessage),
    action: cutText(action, maxReason),
  };
}

function cutText(text: string, max: number): string {
  // The limits count bytes of UTF-8 in places; a character is at most four.
  if (Buffer.byteLength(text) <= max) return text;
  return (
    Buffer.from(text)
      .subarray(0, max - 3)
      .toString("utf8")
      .replace(/\uFFFD+$/, "") + "…"
  );
}

export interface EventWriter {
  readonly component: string;
  readonly host?: string;
}

export interface Occurrences {
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

export function eventObject(
  regarding: EventReference,
  event: Required<EventInput>,
  options: EventWriter & { readonly seen: Occurrences },
): CoreEvent {
  const { component, host, seen } = options;
  const instance = (host === undefined ? component : `${component}-${host}`).slice(0, maxInstance);
  return {
    // Events about objects without a namespace live in `default`.
    metadata: { namespace: regarding.namespace ?? "default", name: eventName(regarding.name) },
    involvedObject: regarding,
    ...event,
    source: { component, ...(host === undefined ? {} : { host }) },
    eventTime: formatMicros(new Date(seen.firstAt)),
    reportingComponent: component,
    reportingInstance: instance,
    firstTimestamp: formatSeconds(new Date(seen.firstAt)),
    ...repetition(seen),
  };
}

export function repetition(
  seen: Occurrences,
): Pick<CoreEvent, "count" | "lastTimestamp"> & Partial<Pick<CoreEvent, "series">> {
  const series = { count: seen.count, lastObservedTime: formatMicros(new Date(seen.lastAt)) };
  return {
    count: seen.count,
    lastTimestamp: formatSeconds(new Date(seen.lastAt)),
    ...(seen.count > 1 ? { series } : {}),
  };
}

function eventName(subject: string): string {
  return `${subject.slice(0, maxNamePrefix)}.${randomBytes(8).toString("hex")}`;
}

/** Identity of "the same thing happened again": a digest, so that long messages cost nothing to remember. */
export function computeDigest(parts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 24);
}
