/** Puts pods into a cluster, several at a time. */
import type { KubeClient } from "@cocoon/kube";
import { namespaces, pods } from "@cocoon/kube";
import { realisticPod, realisticStatus, type PodPlace } from "./realistic-pod.ts";

const namespaceCount = 20;
const writers = 32;

export async function fillWithPods(client: KubeClient, count: number, signal: AbortSignal): Promise<void> {
  for (let index = 0; index < namespaceCount; index += 1)
    await client.create(namespaces, { metadata: { name: `team-${index}` } }, { signal });
  let next = 0;
  const work = async () => {
    for (let index = next++; index < count; index = next++)
      await createPod(client, { index, namespace: `team-${index % namespaceCount}` }, signal);
  };
  await Promise.all(Array.from({ length: writers }, work));
}

async function createPod(client: KubeClient, place: PodPlace, signal: AbortSignal): Promise<void> {
  const pod = await client.create(pods, realisticPod(place), {
    signal,
    fieldManager: "kube-controller-manager",
  });
  const patch = { type: "merge", body: { status: realisticStatus(place) } } as const;
  const key = { namespace: place.namespace, name: pod.metadata.name ?? "" };
  await client.patch(pods, { key, patch }, { signal, subresource: "status", fieldManager: "kubelet" });
}
