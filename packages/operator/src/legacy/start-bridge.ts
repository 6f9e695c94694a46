/** Starts the bridge of the older API: two controllers that keep current objects for older ones. */
import { ownerSet } from "@cocoon/contract";
import { getKey, type CacheIndex, type Caches, type ObjectCache, type Pod } from "@cocoon/kube";
import {
  OwnWrites,
  startController,
  watchMapped,
  watchObjects,
  watchOwned,
  type Controller,
  type ControllerOptions,
} from "@cocoon/kube/controller";
import { legacyHibernations, legacySets, type CustomObject } from "../kinds.ts";
import type { SetParts } from "../cocoonset/parts.ts";
import { podChanged } from "../slim.ts";
import { HibernationBridge } from "./bridge-hibernations.ts";
import { SetBridge } from "./bridge-sets.ts";

type Common = Pick<ControllerOptions, "log" | "signal" | "registry" | "resyncMs" | "maxReconcileMs">;

/** What the bridge of the older API works with. */
export interface BridgeParts extends Pick<
  SetParts,
  "client" | "sets" | "pods" | "snapshots" | "log" | "now"
> {
  readonly legacySets: OwnWrites<CustomObject>;
  readonly legacyHibernations: OwnWrites<CustomObject>;
  /** By `namespace/pod`. */
  readonly legacyHibernationsByPod: CacheIndex<CustomObject>;
  readonly hibernations: OwnWrites<CustomObject>;
  /** Address of the registry, as references of snapshots begin. */
  readonly registryAddress: string;
}

export interface BridgeOptions {
  readonly caches: Caches;
  readonly scope: { readonly namespace?: string };
  readonly sets: ObjectCache<CustomObject>;
  readonly hibernations: ObjectCache<CustomObject>;
  readonly pods: ObjectCache<Pod>;
  readonly parts: Omit<BridgeParts, "legacySets" | "legacyHibernations" | "legacyHibernationsByPod">;
  readonly common: Common;
}

const byPod = ({ metadata, spec }: CustomObject): string[] => {
  const name = (spec as { podName?: unknown } | undefined)?.podName;
  return typeof name === "string" && name !== "" ? [`${metadata.namespace ?? ""}/${name}`] : [];
};

export function startBridge(options: BridgeOptions, stack: AsyncDisposableStack): Controller[] {
  const { caches, scope, parts, common } = options;
  const older = {
    sets: caches.open(legacySets, scope),
    hibernations: caches.open(legacyHibernations, scope),
  };
  const overlay = { client: parts.client, log: parts.log };
  const index = older.hibernations.index(byPod);
  const all: BridgeParts = {
    ...parts,
    legacySets: stack.use(new OwnWrites({ ...overlay, type: legacySets, source: older.sets }).start()),
    legacyHibernations: stack.use(
      new OwnWrites({ ...overlay, type: legacyHibernations, source: older.hibernations }).start(),
    ),
    legacyHibernationsByPod: index,
  };
  const setBridge = new SetBridge(all);
  const hibernationBridge = new HibernationBridge(all);
  return [
    startController({
      ...common,
      name: "legacy-cocoonset",
      watches: [
        watchObjects(older.sets),
        watchOwned(options.sets, { owner: legacySets }),
        watchMapped(options.pods, { predicate: podChanged, map: bridgedSet }),
      ],
      reconcile: (key, context) => setBridge.reconcile(key, context),
    }),
    startController({
      ...common,
      name: "legacy-hibernation",
      watches: [
        watchObjects(older.hibernations),
        watchOwned(options.hibernations, { owner: legacyHibernations }),
        watchMapped(older.hibernations, {
          map: (object) =>
            byPod(object)
              .flatMap((pod) => index.get(pod))
              .map(getKey),
        }),
      ],
      reconcile: (key, context) => hibernationBridge.reconcile(key, context),
    }),
  ];
}

/** The older set has the name of the current one. */
function bridgedSet(pod: Pod): { namespace: string | undefined; name: string }[] {
  const name = ownerSet(pod);
  return name ? [{ namespace: pod.metadata.namespace, name }] : [];
}
