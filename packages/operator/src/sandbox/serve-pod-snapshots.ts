/** Serves PodSnapshots of machines. */
import type { Caches, ObjectCache, Pod } from "@cocoon/kube";
import {
  OwnWrites,
  startController,
  watchMapped,
  watchObjects,
  type Controller,
} from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import { podSnapshots, podSnapshotTriggers } from "./kinds.ts";
import { PodSnapshotReconciler, TriggerReconciler, type PodSnapshotParts } from "./reconcile-pod-snapshot.ts";

export interface ServePodSnapshots extends Pick<
  PodSnapshotParts,
  "client" | "pods" | "snapshots" | "log" | "now"
> {
  readonly caches: Caches;
  readonly podCache: ObjectCache<Pod>;
  readonly scope: { readonly namespace?: string };
  readonly common: Omit<Parameters<typeof startController>[0], "name" | "watches" | "reconcile">;
}

export function servePodSnapshots(options: ServePodSnapshots, stack: AsyncDisposableStack): Controller[] {
  const { caches, scope, client, log, common, podCache } = options;
  const triggers = caches.open(podSnapshotTriggers, scope);
  const taken = caches.open(podSnapshots, scope);
  const overlay = { client, log };
  const parts: PodSnapshotParts = {
    ...options,
    triggers: stack.use(new OwnWrites({ ...overlay, type: podSnapshotTriggers, source: triggers }).start()),
    podSnapshots: stack.use(new OwnWrites({ ...overlay, type: podSnapshots, source: taken }).start()),
  };
  const triggerReconciler = new TriggerReconciler(parts);
  const snapshotReconciler = new PodSnapshotReconciler(parts);
  const byPod = triggers.index(readTarget);
  return [
    startController({
      ...common,
      name: "pod-snapshot-trigger",
      watches: [
        watchObjects(triggers),
        watchMapped(podCache, {
          map: ({ metadata }) => byPod.get(`${metadata.namespace}/${metadata.name}`).map(toKey),
        }),
      ],
      reconcile: (key, context) => triggerReconciler.reconcile(key, context),
    }),
    startController({
      ...common,
      name: "pod-snapshot",
      watches: [watchObjects(taken)],
      reconcile: (key, context) => snapshotReconciler.reconcile(key, context),
    }),
  ];
}

function readTarget({ metadata, spec }: CustomObject): string[] {
  const pod = (spec as { targetPod?: string } | undefined)?.targetPod;
  return pod ? [`${metadata.namespace}/${pod}`] : [];
}

function toKey({ metadata }: CustomObject): { namespace: string | undefined; name: string } {
  return { namespace: metadata.namespace, name: metadata.name ?? "" };
}
