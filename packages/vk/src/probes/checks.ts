/** One readiness check of a machine. Which one is used follows from the pod and from how the guest can be reached. */
import { getErrorMessage, withDeadline, type Abortable } from "@cocoon/core";
import type { Vm, VmAddress, VmRuntime } from "@cocoon/vm";

export interface CheckResult {
  readonly ok: boolean;
  /** Names the check. */
  readonly message: string;
}

export type Ping = (ip: string, options: Abortable) => Promise<CheckResult>;

export interface CheckTarget {
  readonly runtime: VmRuntime;
  readonly vm: Vm;
  readonly address: VmAddress | undefined;
  readonly probePort: number | undefined;
  /** Undefined where the `ping` program cannot be used. */
  readonly ping: Ping | undefined;
}

type CheckKind = "tcp" | "agent" | "ping" | "ssh" | "address";

const checkTimeoutMs = 3_000;
const sshPort = 22;

/** `probe-port` wins; macOS does not answer pings while it boots and has no agent; a routable address is pinged; behind forwards the agent answers, or an SSH server greets. */
export function chooseCheck(
  target: Pick<CheckTarget, "address" | "probePort" | "ping"> & {
    readonly vm: Pick<Vm, "guest"> & { readonly config: Pick<Vm["config"], "os"> };
  },
): CheckKind {
  if (target.probePort !== undefined) return "tcp";
  if (target.vm.config.os === "macos") return "ssh";
  if (target.address?.routable) return target.ping ? "ping" : "address";
  return target.vm.guest === "unknown" ? "ssh" : "agent";
}

export async function checkMachine(target: CheckTarget, { signal }: Abortable): Promise<CheckResult> {
  const { address, probePort, vm } = target;
  const limited = { signal: withDeadline(signal, checkTimeoutMs) };
  const checks: Readonly<Record<CheckKind, () => CheckResult | Promise<CheckResult>>> = {
    agent: () =>
      vm.guest === "ready"
        ? { ok: true, message: "guest agent ok" }
        : { ok: false, message: `guest agent: ${vm.guest}` },
    tcp: () => checkTcp(target, probePort ?? 0, limited),
    ping: () =>
      target.ping && address
        ? target.ping(address.ip, limited)
        : { ok: false, message: "waiting for dhcp lease" },
    address: () => ({ ok: true, message: "address known (ping is not available)" }),
    ssh: () => checkSsh(target, limited),
  };
  return checks[chooseCheck(target)]();
}

async function checkTcp(
  { runtime, vm }: CheckTarget,
  port: number,
  options: Abortable,
): Promise<CheckResult> {
  try {
    const connection = await runtime.dial(vm.id, port, options);
    connection.on("error", () => undefined);
    connection.destroy();
    return { ok: true, message: "tcp ok" };
  } catch (error) {
    return { ok: false, message: `tcp probe ${port}: ${getErrorMessage(error)}` };
  }
}

/** A forward accepts before the guest does, so only the greeting counts. */
async function checkSsh({ runtime, vm }: CheckTarget, options: Abortable): Promise<CheckResult> {
  try {
    const connection = await runtime.dial(vm.id, sshPort, options);
    connection.on("error", () => undefined);
    try {
      const greeting = await firstBytes(connection, options);
      return greeting.startsWith("SSH-")
        ? { ok: true, message: "ssh ok" }
        : { ok: false, message: "ssh probe: no greeting" };
    } finally {
      connection.destroy();
    }
  } catch (error) {
    return { ok: false, message: `ssh probe: ${getErrorMessage(error)}` };
  }
}

function firstBytes(connection: NodeJS.ReadableStream, { signal }: Abortable): Promise<string> {
  return new Promise((resolve) => {
    connection.once("data", (data: Buffer | string) => resolve(data.toString("latin1")));
    connection.once("end", () => resolve(""));
    connection.once("error", () => resolve(""));
    signal.addEventListener("abort", () => resolve(""), { once: true });
  });
}
