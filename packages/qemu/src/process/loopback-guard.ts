/**
 * Keeps guests on the user network away from the host. QEMU opens connections on behalf of its guest and maps 10.0.2.2 to the
 * host's loopback; it has no option against that short of cutting the guest off. So QEMU runs with a small library
 * (`native/loopback-guard.c`) that refuses all addresses of this host. No privilege is needed.
 *
 * It guards against guests, which reach the network only through these calls, not against a QEMU that was taken over: that is
 * what its own user, namespaces, cgroup and sandbox are for.
 */
import { Fault, getErrorMessage, type Abortable } from "@cocoon/core";
import { ensureNative } from "./native-program.ts";

/** The library's path. `notSupported` when this host cannot build it. */
export async function ensureLoopbackGuard(shared: string, options: Abortable): Promise<string> {
  try {
    return await ensureNative("loopback-guard", shared, options);
  } catch (error) {
    options.signal.throwIfAborted();
    throw new Fault(
      "notSupported",
      `${getErrorMessage(error)}; or let guests reach this host with COCOON_ALLOW_HOST_LOOPBACK=true`,
      { cause: error },
    );
  }
}
