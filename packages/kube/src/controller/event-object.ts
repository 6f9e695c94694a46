/**
 * Events on the wire: core/v1, because that is what `kubectl describe` reads and what roles usually allow, with the
 * fields of events.k8s.io/v1 filled as well (eventTime, series, action, reporter), so that both views are complete.
 */
import { createHash, randomBytes } from "node:crypto";
import { apiVersionOf, resourceType, type KubeObject, type ResourceType } from "../object.ts";

export interface EventReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly fieldPath?: string;
}

export interface CoreEvent extends KubeObject {
  readonly involvedObject: EventReference;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly action: string;
  readonly source: { readonly component: string; readonly host?: string };
  readonly firstTimestamp: string;
  readonly lastTimestamp: string;
  readonly count: number;
  readonly eventTime: string;
  readonly reportingComponent: string;
  readonly reportingInstance: string;
  readonly series?: { readonly count: number; readonly lastObservedTime: string };
}

export const coreEvents = resourceType<CoreEvent>({
  group: "",
  version: "v1",
  kind: "Event",
  plural: "events",
  namespaced: true,
});

export interface EventInput {
  readonly type: "Normal" | "Warning";
  /** A CamelCase word that programs may rely on. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
  /** What was done or tried; the reason when left out. */
  readonly action?: string;
}

/** What an event is about. */
export function referenceTo(type: ResourceType<KubeObject>, object: KubeObject): EventReference {
  const { namespace, name = "", uid, resourceVersion } = object.metadata;
  return {
    apiVersion: apiVersionOf(type),
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

/** The state of one event: the same thing, seen `count` times. */
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
    eventTime: microTime(seen.firstAt),
    reportingComponent: component,
    reportingInstance: instance,
    firstTimestamp: time(seen.firstAt),
    ...repetition(seen),
  };
}

/** The part that changes when it happens again. */
export function repetition(
  seen: Occurrences,
): Pick<CoreEvent, "count" | "lastTimestamp"> & Partial<Pick<CoreEvent, "series">> {
  const series = { count: seen.count, lastObservedTime: microTime(seen.lastAt) };
  return { count: seen.count, lastTimestamp: time(seen.lastAt), ...(seen.count > 1 ? { series } : {}) };
}

function eventName(subject: string): string {
  return `${subject.slice(0, maxNamePrefix)}.${randomBytes(8).toString("hex")}`;
}

function time(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}

/** Identity of "the same thing happened again": a digest, so that long messages cost nothing to remember. */
export function digestOf(parts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 24);
}
