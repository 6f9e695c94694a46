/** How one request gets to its machine, once it was admitted. */
import type { Abortable } from "@cocoon/core";
import type { PodConnection } from "../cluster/pod-access.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";

export interface Route {
  /** Present for the envd API of a sandbox, which the gateway serves itself. */
  readonly envdOf?: Sandbox;
  readonly connect: (options: Abortable) => Promise<PodConnection>;
  /** A signal that aborts when the machine is gone; to be aborted when the client is. */
  readonly track: () => AbortController;
  /** The request was held: others wait until it is answered. */
  readonly turn?: Disposable;
}
