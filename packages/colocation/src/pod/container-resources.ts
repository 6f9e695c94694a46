/** Native cpu and memory of batch and mid pods become extended resources, which the node offers beside its own. */
import {
  canonicalQuantity,
  parseQuantity,
  quantityMillis,
  createQuantity,
  quantityUnits,
} from "@cocoon/core/quantity";
import { isRecord, own, put, type Json, child, sortedJson } from "../json.ts";
import { batchCpu, batchMemory, midCpu, midMemory, gpu, extendedSpecAnnotation } from "../keys.ts";
import type { PriorityBand } from "../priority.ts";
import { parseResources, writeResources } from "../resources.ts";
import { tryParseJson, Fault } from "@cocoon/core";
import { jsonEqual } from "@cocoon/core/json-patch";
import type { ContainerReading, PodReading } from "./read-pod.ts";

interface Names {
  readonly cpu: string;
  readonly memory: string;
}

const names: Readonly<Partial<Record<PriorityBand, Names>>> = {
  "koord-batch": { cpu: batchCpu, memory: batchMemory },
  "koord-mid": { cpu: midCpu, memory: midMemory },
};

/** Changes the pod in place. Pods of other classes stay as they are. */
export function translateResources(pod: Json, priorityClass: PriorityBand): void {
  const extended = names[priorityClass];
  const spec = own(pod, "spec");
  if (!extended || !isRecord(spec)) return;
  for (const field of ["initContainers", "containers"]) {
    const list = own(spec, field);
    for (const container of Array.isArray(list) ? list.filter(isRecord) : [])
      translateContainer(container, extended);
  }
  const overhead = own(spec, "overhead");
  if (isRecord(overhead)) rename(overhead, extended);
}

function translateContainer(container: Json, extended: Names): void {
  const resources = own(container, "resources");
  if (!isRecord(resources)) return;
  const requests = own(resources, "requests");
  const limits = own(resources, "limits");
  if (isRecord(requests)) rename(requests, extended);
  if (!isRecord(limits)) return;
  rename(limits, extended);
  for (const name of [extended.cpu, extended.memory]) {
    if (own(limits, name) === undefined) continue;
    const reviewed = isRecord(own(resources, "requests")) ? (resources["requests"] as Json) : {};
    if (own(reviewed, name) !== undefined) continue;
    put(reviewed, name, limits[name]);
    resources["requests"] = reviewed;
  }
}

function rename(list: Json, extended: Names): void {
  const cpu = own(list, "cpu");
  if (cpu !== undefined) {
    list[extended.cpu] = canonicalQuantity(createQuantity(quantityMillis(parseQuantity(cpu as string))));
    delete list["cpu"];
  }
  const memory = own(list, "memory");
  if (memory !== undefined) {
    list[extended.memory] = canonicalQuantity(parseQuantity(memory as string));
    delete list["memory"];
  }
}

/** GPU shorthands spelled out: `koordinator.sh/gpu: N` is N percent of core and memory, and how many cards share it. */
const handled = [gpu.whole, gpu.core, gpu.memory, gpu.memoryRatio, gpu.shared];

/** Changes the pod in place; containers that ask for no GPU stay as they are. */
export function expandDevices(pod: Json): void {
  const spec = own(pod, "spec");
  const containers = isRecord(spec) ? own(spec, "containers") : undefined;
  if (!Array.isArray(containers)) return;
  for (const container of containers) if (isRecord(container)) expandContainer(container);
}

function expandContainer(container: Json): void {
  const resources = own(container, "resources");
  if (!isRecord(resources)) return;
  const lists = ["requests", "limits"].map((part) => own(resources, part));
  const asks = lists.some((list) => isRecord(list) && handled.some((name) => own(list, name) !== undefined));
  if (!asks) return;
  // A list that is missing is made: extended resources need request and limit to be equal.
  const requests = child(resources, "requests");
  const limits = child(resources, "limits");
  const both = (name: string, value: unknown) => {
    put(requests, name, value);
    put(limits, name, value);
  };
  const whole = own(requests, gpu.whole);
  if (whole !== undefined) {
    both(gpu.core, whole);
    both(gpu.memoryRatio, whole);
    delete requests[gpu.whole];
    delete limits[gpu.whole];
  }
  if (own(requests, gpu.shared) !== undefined) return;
  const base = own(requests, gpu.memoryRatio) ?? own(requests, gpu.core);
  both(gpu.shared, String(readShares(base)));
}

function readShares(base: unknown): bigint {
  if (typeof base !== "string" && typeof base !== "number") return 1n;
  const units = quantityUnits(parseQuantity(base));
  return units > 100n && units % 100n === 0n ? units / 100n : 1n;
}

/** The annotation that repeats batch requests and limits for the agent on the node, which cannot see them otherwise. */
export function writeExtendedSpec(pod: Json, reading: PodReading): void {
  const wanted = buildSpec(reading.containers);
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

function buildSpec(containers: readonly ContainerReading[]): Json {
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
  const value = tryParseJson(text);
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
