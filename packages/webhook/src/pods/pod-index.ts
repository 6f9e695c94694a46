/**
 * Which pods hold which machine names, and what they ask of their nodes. Fed by the pod cache, event by event.
 *
 * That a pod is not here is no proof that it is gone: it may be too new. What proves it is that the cache has seen a
 * later version of the world than the one in which the pod was known to exist, or that its deletion was seen.
 */
import type { CacheEvent } from "@cocoon/kube";
import type { NodeLoad } from "@cocoon/kube/scheduling";
import { MultiMap } from "../multi-map.ts";
import { NodeLoads } from "../nodes/node-loads.ts";
import type { SlimPod } from "./slim-pod.ts";

export interface PodIndexOptions {
  /** Version of the world that the cache has reached. */
  readonly version: () => string | undefined;
  readonly arrived?: (claim: string) => void;
}

/** Claims whose pods were seen to go. Bounded: the reaper writes such news into the store within seconds. */
const rememberedDepartures = 65_536;

export class PodIndex {
  readonly #options: PodIndexOptions;
  readonly #byUid = new Map<string, SlimPod>();
  readonly #byVmName = new MultiMap<string, SlimPod>();
  readonly #byName = new Map<string, SlimPod>();
  readonly #claims = new Set<string>();
  readonly #departed = new Set<string>();
  readonly #loads = new NodeLoads();

  constructor(options: PodIndexOptions) {
    this.#options = options;
  }

  /** Everything up to this version has been taken in. */
  get version(): bigint {
    return BigInt(this.#options.version() ?? "0");
  }

  readonly take = (event: CacheEvent<SlimPod>): void => {
    this.#remove(event.object.metadata.uid);
    if (event.kind !== "deleted") this.#add(event.object);
    else if (event.object.claim !== "") this.#depart(event.object.claim);
  };

  #add(pod: SlimPod): void {
    const { namespace, name, uid } = pod.metadata;
    if (pod.nodeName === "" && !pod.isMachine) return;
    this.#byUid.set(uid, pod);
    if (occupiesNode(pod)) this.#loads.add(pod.nodeName, pod.requests);
    if (!pod.isMachine) return;
    this.#byName.set(`${namespace}/${name}`, pod);
    if (pod.claim !== "") {
      this.#claims.add(pod.claim);
      this.#options.arrived?.(pod.claim);
    }
    if (pod.vmName !== "") this.#byVmName.add(pod.vmName, pod);
  }

  #remove(uid: string): void {
    const pod = this.#byUid.get(uid);
    if (!pod) return;
    this.#byUid.delete(uid);
    if (occupiesNode(pod)) this.#loads.remove(pod.nodeName, pod.requests);
    const name = `${pod.metadata.namespace}/${pod.metadata.name}`;
    if (this.#byName.get(name) === pod) this.#byName.delete(name);
    this.#claims.delete(pod.claim);
    this.#byVmName.remove(pod.vmName, pod);
  }

  #depart(claim: string): void {
    this.#departed.add(claim);
    const oldest = this.#departed.values().next().value;
    if (this.#departed.size > rememberedDepartures && oldest !== undefined) this.#departed.delete(oldest);
  }

  withVmName(vmName: string): ReadonlySet<SlimPod> {
    return this.#byVmName.get(vmName);
  }

  /** A machine's pod by its name. */
  named(namespace: string, name: string): SlimPod | undefined {
    return this.#byName.get(`${namespace}/${name}`);
  }

  vmNames(): Iterable<readonly [string, ReadonlySet<SlimPod>]> {
    return this.#byVmName.entries();
  }

  hasClaim(claim: string): boolean {
    return this.#claims.has(claim);
  }

  /** A pod with that claim was here and was deleted. */
  hasDeparted(claim: string): boolean {
    return this.#departed.has(claim);
  }

  getLoad(node: string): NodeLoad {
    return this.#loads.get(node);
  }
}

function occupiesNode({ nodeName, finished }: SlimPod): boolean {
  return nodeName !== "" && !finished;
}
