/** Native cpu and memory of batch and mid pods become extended resources, which the node offers beside its own. */
import { parseQuantity, quantityMillis, quantityOf } from "@cocoon/core/quantity";
import { isRecord, own, put, type Json } from "../json.ts";
import { batchCpu, batchMemory, midCpu, midMemory } from "../keys.ts";
import type { PriorityBand } from "../priority.ts";
import { quantityText } from "../resources.ts";

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
    const asked = isRecord(own(resources, "requests")) ? (resources["requests"] as Json) : {};
    if (own(asked, name) !== undefined) continue;
    put(asked, name, limits[name]);
    resources["requests"] = asked;
  }
}

function rename(list: Json, extended: Names): void {
  const cpu = own(list, "cpu");
  if (cpu !== undefined) {
    list[extended.cpu] = quantityText(quantityOf(quantityMillis(parseQuantity(cpu as string))));
    delete list["cpu"];
  }
  const memory = own(list, "memory");
  if (memory !== undefined) {
    list[extended.memory] = quantityText(parseQuantity(memory as string));
    delete list["memory"];
  }
}
