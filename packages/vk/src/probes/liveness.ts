/**
 * A container's own livenessProbe, checked through the guest. It starts once the machine has been ready. Enough failures in a row
 * reset the VM in place, which counts as a restart.
 */
import type { Duplex } from "node:stream";
import { connect as tlsConnect } from "node:tls";
import { Fault, getErrorMessage, nodeHttp, sleep, withDeadline, type Abortable } from "@cocoon/core";
import type { Container, ContainerProbe } from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import { runToEnd } from "../guest/command.ts";
import type { CheckResult } from "./checks.ts";

export interface LivenessTarget {
  readonly runtime: VmRuntime;
  readonly vmId: string;
  readonly container: Container;
}

export interface LivenessOptions extends Abortable {
  readonly probe: ContainerProbe;
  readonly check: (options: Abortable) => Promise<CheckResult>;
  /** Enough failures in a row. The watch ends with it. */
  readonly onDead: (message: string) => Promise<void>;
  readonly onFailure: (message: string) => void;
  /** Milliseconds that one of the pod's seconds has; less in tests. */
  readonly secondMs?: number;
}

const defaults = { periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3 };

/** Runs until the signal aborts or the machine is dead; never throws. */
export async function watchLiveness(options: LivenessOptions): Promise<void> {
  const { probe, check, signal, secondMs = 1_000 } = options;
  const periodMs = (probe.periodSeconds || defaults.periodSeconds) * secondMs;
  const timeoutMs = (probe.timeoutSeconds || defaults.timeoutSeconds) * secondMs;
  const threshold = probe.failureThreshold || defaults.failureThreshold;
  let failures = 0;
  if (!(await sleep((probe.initialDelaySeconds ?? 0) * secondMs, { signal }))) return;
  while (!signal.aborted) {
    const result = await attempt(check, withDeadline(signal, timeoutMs));
    if (signal.aborted) return;
    failures = result.ok ? 0 : failures + 1;
    if (!result.ok) options.onFailure(result.message);
    if (failures >= threshold) return options.onDead(result.message);
    await sleep(periodMs, { signal });
  }
}

async function attempt(check: LivenessOptions["check"], signal: AbortSignal): Promise<CheckResult> {
  const late = new Promise<CheckResult>((resolve) => {
    signal.addEventListener("abort", () => resolve({ ok: false, message: "no answer in time" }), {
      once: true,
    });
  });
  try {
    return await Promise.race([check({ signal }), late]);
  } catch (error) {
    return { ok: false, message: getErrorMessage(error) };
  }
}

/** Undefined for a probe that this node cannot ask, and says why. */
export function livenessCheck(
  target: LivenessTarget,
  probe: ContainerProbe,
): ((options: Abortable) => Promise<CheckResult>) | string {
  if (probe.exec) return (options) => checkCommand(target, probe.exec?.command ?? [], options);
  if (probe.httpGet) return (options) => checkHttp(target, probe.httpGet, options);
  if (probe.tcpSocket) return (options) => checkPort(target, probe.tcpSocket?.port ?? 0, options);
  return "only exec, httpGet and tcpSocket are supported as livenessProbe";
}

async function checkCommand(
  { runtime, vmId }: LivenessTarget,
  argv: readonly string[],
  options: Abortable,
): Promise<CheckResult> {
  const code = await runToEnd(runtime, { vmId, argv }, options);
  return { ok: code === 0, message: `command ended with ${code}` };
}

async function checkPort(
  target: LivenessTarget,
  port: number | string,
  options: Abortable,
): Promise<CheckResult> {
  const connection = await dial(target, port, options);
  connection.destroy();
  return { ok: true, message: "tcp ok" };
}

async function checkHttp(
  target: LivenessTarget,
  get: ContainerProbe["httpGet"],
  options: Abortable,
): Promise<CheckResult> {
  if (!get) return { ok: true, message: "" };
  const plain = await dial(target, get.port, options);
  // A probe asks whether something answers, not who it is: certificates are not checked, as by any kubelet.
  const stream = get.scheme === "HTTPS" ? tlsConnect({ socket: plain, rejectUnauthorized: false }) : plain;
  const headers = Object.fromEntries((get.httpHeaders ?? []).map(({ name, value }) => [name, value]));
  try {
    const status = await new Promise<number>((resolve, reject) => {
      nodeHttp
        .request(
          {
            path: get.path ?? "/",
            headers: { host: "localhost", "user-agent": "kube-probe/vk-cocoon", ...headers },
            createConnection: () => stream,
            signal: options.signal,
          },
          (answer) => {
            answer.resume();
            resolve(answer.statusCode ?? 0);
          },
        )
        .on("error", reject)
        .end();
    });
    return { ok: status >= 200 && status < 400, message: `HTTP probe answered ${status}` };
  } finally {
    stream.destroy();
    plain.destroy();
  }
}

async function dial(
  { runtime, vmId, container }: LivenessTarget,
  port: number | string,
  options: Abortable,
): Promise<Duplex> {
  const connection = await runtime.dial(vmId, portNumber(container, port), options);
  connection.on("error", () => undefined);
  return connection;
}

/** By number, or by the name that the container gives it. */
function portNumber(container: Container, port: number | string): number {
  const named = container.ports?.find((each) => each.name === port)?.containerPort;
  const number = named ?? Number(port);
  if (!Number.isInteger(number) || number < 1 || number > 65_535)
    throw new Fault("invalid", `livenessProbe: "${port}" is no port of container ${container.name}`);
  return number;
}
