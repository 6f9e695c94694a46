/** What the controllers of agent-sandbox work with. */
import type { Abortable, Logger } from "@cocoon/core";
import type { CacheIndex, KubeClient, Pod, Service } from "@cocoon/kube";
import type { EventRecorder, OwnWrites } from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import type { NetworkPolicy } from "./kinds.ts";

export interface SandboxParts {
  readonly client: KubeClient;
  readonly sandboxes: OwnWrites<CustomObject>;
  readonly claims: OwnWrites<CustomObject>;
  readonly templates: OwnWrites<CustomObject>;
  readonly pools: OwnWrites<CustomObject>;
  readonly pods: OwnWrites<Pod>;
  readonly services: OwnWrites<Service>;
  readonly policies: OwnWrites<NetworkPolicy>;
  /** By uid of the controller. */
  readonly podsByOwner: Pick<CacheIndex<Pod>, "get">;
  readonly sandboxesByOwner: Pick<CacheIndex<CustomObject>, "get">;
  readonly events: EventRecorder;
  readonly clusterDomain: string;
  readonly log: Logger;
  readonly now: () => Date;
}

/** Of the objects that these controllers create, as upstream's controller has it. */
const fieldManager = "sandbox-controller";

export function writing({ signal }: Abortable): {
  readonly signal: AbortSignal;
  readonly fieldManager: string;
} {
  return { signal, fieldManager };
}
