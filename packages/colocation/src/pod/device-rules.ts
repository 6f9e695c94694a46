/** Requests for GPUs and their parts must make sense together. */
import { compareQuantities, quantityUnits, type Quantity } from "@cocoon/core/quantity";
import { gpu } from "../keys.ts";
import { quantityText, zero, type Resources } from "../resources.ts";
import type { Refusal } from "../rules.ts";
import type { PodReading } from "./read-pod.ts";

const path = "pod.spec.containers[*].resources.requests";

export function* deviceRules({ containers }: PodReading): Generator<Refusal> {
  for (const { requests } of containers)
    for (const message of troubles(requests))
      yield { rule: "device-resources", message: `${path}: ${message}` };
}

function* troubles(requests: Resources): Generator<string> {
  const whole = requests.get(gpu.whole);
  const shared = requests.get(gpu.shared);
  if (whole && shared) yield "Forbidden: Forbidden declare GPU and GPU share at same time";
  if (whole) yield* wholeTroubles(whole);
  if (shared) yield* sharedTroubles(requests, shared);
}

function* wholeTroubles(whole: Quantity): Generator<string> {
  const units = quantityUnits(whole);
  if (units === 0n) yield invalid(whole, "the requested GPU must be greater than zero");
  else if (units > 100n && units % 100n !== 0n)
    yield invalid(whole, "the requested GPU must be percentage of 100");
}

function* sharedTroubles(requests: Resources, shared: Quantity): Generator<string> {
  const units = quantityUnits(shared);
  if (units === 0n) {
    yield invalid(shared, "the requested gpu.shared must be greater than zero");
    return;
  }
  if (!isZero(requests.get(gpu.npuCore))) return;
  const [memory, ratio, core] = [
    requests.get(gpu.memory),
    requests.get(gpu.memoryRatio),
    requests.get(gpu.core),
  ];
  if (isZero(memory) && isZero(ratio)) yield "Forbidden: gpuMemory and gpuMemoryRatio are both zero";
  if (!isZero(memory) && !isZero(ratio))
    yield "Forbidden: Forbidden declare gpuMemory and gpuMemoryRatio at same time";
  if (core && quantityUnits(core) % units !== 0n)
    yield invalid(core, "the requested gpuCore must multiple of shared");
  if (ratio && quantityUnits(ratio) % units !== 0n)
    yield invalid(ratio, "the requested gpuMemoryRatio must multiple of shared");
}

function isZero(quantity: Quantity | undefined): boolean {
  return quantity === undefined || compareQuantities(quantity, zero) === 0;
}

function invalid(value: Quantity, message: string): string {
  return `Invalid value: "${quantityText(value)}": ${message}`;
}
