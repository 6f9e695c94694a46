/** Which differences of a pod a provider must hear of. */
import { isDeepStrictEqual } from "node:util";
import type { Pod } from "../provider.ts";

/** The fields that can change after creation and mean something to a provider. */
export function samePod(left: Pod, right: Pod): boolean {
  return isDeepStrictEqual(comparable(left), comparable(right));
}

function comparable(pod: Pod): unknown {
  const { containers, initContainers, ephemeralContainers, activeDeadlineSeconds, tolerations } = pod.spec;
  return [
    containers,
    initContainers ?? [],
    ephemeralContainers ?? [],
    activeDeadlineSeconds,
    tolerations ?? [],
    pod.metadata.labels ?? {},
    pod.metadata.annotations ?? {},
  ];
}

export function isTerminal(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
