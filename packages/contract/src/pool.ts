/** Which pool of VM hosts a pod wants. */
import { nodeLabel } from "./keys.ts";
import type { PodLike } from "./pod-state.ts";

export const defaultPool = "default";

/** Node selector, then label, then annotation; the first that is not empty. */
export function poolOf(pod: PodLike): string {
  return (
    pod.spec?.nodeSelector?.[nodeLabel.pool] ||
    pod.metadata.labels?.[nodeLabel.pool] ||
    pod.metadata.annotations?.[nodeLabel.pool] ||
    defaultPool
  );
}
