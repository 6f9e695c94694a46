/** The annotation that repeats batch requests and limits for the agent on the node, which cannot see them otherwise. */
import { Fault } from "@cocoon/core";
import { jsonEqual } from "@cocoon/core/json-patch";
import { child, isRecord, own, sortedJson, tryParseJson, type Json } from "../json.ts";
import { batchCpu, batchMemory, extendedSpecAnnotation } from "../keys.ts";
import { parseResources, writeResources } from "../resources.ts";
import type { ContainerReading, PodReading } from "./read-pod.ts";

export function writeExtendedSpec(pod: Json, reading: PodReading): void {
  const wanted = specOf(reading.containers);
  const current = reading.annotations[extendedSpecAnnotation];
  if (current === undefined) {
    if (Object.keys(wanted).length > 0) setAnnotation(pod, sortedJson(wanted));
    return;
  }
  if (!jsonEqual(readSpec(current), wanted)) setAnnotation(pod, sortedJson(wanted));
}

function setAnnotation(pod: Json, text: string): void {
  child(child(pod, "metadata"), "annotations")[extendedSpecAnnotation] = text;
}

function specOf(containers: readonly ContainerReading[]): Json {
  const entries = containers.flatMap(({ name, limits, requests }) => {
    const parts = Object.entries({ limits: batchOnly(limits), requests: batchOnly(requests) });
    const filled = parts.filter(([, list]) => Object.keys(list).length > 0);
    return filled.length === 0 ? [] : [[name, Object.fromEntries(filled)] as const];
  });
  return entries.length === 0 ? {} : { containers: Object.fromEntries(entries) };
}

function batchOnly(resources: ContainerReading["limits"]): Record<string, string> {
  return writeResources(
    new Map([...resources].filter(([name]) => name === batchCpu || name === batchMemory)),
  );
}

/** The annotation as it stands, quantities in canonical form so that spelling makes no difference. */
function readSpec(text: string): Json {
  const value = tryParseJson(text)?.value;
  if (!isRecord(value)) throw malformed();
  const containers = own(value, "containers") ?? {};
  if (!isRecord(containers)) throw malformed();
  const read = Object.entries(containers).map(([name, each]) => [name, readContainer(each)] as const);
  return read.length === 0 ? {} : { containers: Object.fromEntries(read) };
}

function readContainer(value: unknown): Json {
  if (!isRecord(value)) throw malformed();
  return Object.fromEntries(
    ["limits", "requests"].flatMap((part) => {
      const list = own(value, part);
      if (list === undefined || list === null) return [];
      if (!isRecord(list)) throw malformed();
      const read = writeResources(parseResources(list, `annotation ${extendedSpecAnnotation}`));
      return Object.keys(read).length === 0 ? [] : [[part, read]];
    }),
  );
}

function malformed(): Fault {
  return new Fault(
    "badRequest",
    `annotation ${extendedSpecAnnotation} must be JSON of the form {"containers":{"<name>":{"limits":{},"requests":{}}}}; leave it out, it is written for you`,
  );
}
