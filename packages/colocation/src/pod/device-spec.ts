/** GPU shorthands spelled out: `koordinator.sh/gpu: N` is N percent of core and memory, and how many cards share it. */
import { parseQuantity, quantityUnits } from "@cocoon/core/quantity";
import { child, isRecord, own, put, type Json } from "../json.ts";
import { gpu } from "../keys.ts";

const handled = [gpu.whole, gpu.core, gpu.memory, gpu.memoryRatio, gpu.shared];

/** Changes the pod in place; containers that ask for no GPU stay as they are. */
export function spellOutDevices(pod: Json): void {
  const spec = own(pod, "spec");
  const containers = isRecord(spec) ? own(spec, "containers") : undefined;
  if (!Array.isArray(containers)) return;
  for (const container of containers) if (isRecord(container)) spellOutContainer(container);
}

function spellOutContainer(container: Json): void {
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
  both(gpu.shared, String(sharesOf(base)));
}

function sharesOf(base: unknown): bigint {
  if (typeof base !== "string" && typeof base !== "number") return 1n;
  const units = quantityUnits(parseQuantity(base));
  return units > 100n && units % 100n === 0n ? units / 100n : 1n;
}
