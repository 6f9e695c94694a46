/**
 * Into the guest of a pod, through the API server: port-forward for connections, exec to prepare the guest. Everything is
 * done with the rights of the tenant.
 */
import type { Duplex } from "node:stream";
import { Fault, tryParseJson, type Abortable } from "@cocoon/core";
import type { KubeConnection } from "@cocoon/kube";
import {
  commandProtocol,
  PortForwardClient,
  portForwardProtocol,
  runSpdyCommand,
  spdyUpgrade,
} from "@cocoon/kubelet/client";

export interface PodTarget {
  readonly namespace: string;
  readonly pod: string;
  /** Headers of impersonation. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface PodConnection {
  readonly stream: Duplex;
  /** Why it could not be made, once it is closed without having been so. */
  readonly failure: Promise<string>;
  readonly release: (reusable: boolean) => void;
}

/** Sessions that are kept for the next connection to the same pod, and for how long. */
const mostIdle = 4;
const idleMs = 20_000;
const upgradeMs = 15_000;

interface Idle {
  readonly session: PortForwardClient;
  readonly timer: NodeJS.Timeout;
}

/**
 * A session serves one connection at a time: SPDY here has no flow control of its own, so a slow reader would hold up the
 * others.
 */
export class PodAccess implements Disposable {
  readonly #client: KubeConnection;
  readonly #idle = new Map<string, Idle[]>();

  constructor(client: KubeConnection) {
    this.#client = client;
  }

  async connect(target: PodTarget, port: number, options: Abortable): Promise<PodConnection> {
    const key = sessionKey(target);
    const session = this.#takeIdle(key) ?? (await this.#openSession(target, options));
    const { connection, failure } = session.connect(port);
    let released = false;
    return {
      stream: connection,
      failure,
      release: (reusable) => {
        if (released) return;
        released = true;
        if (reusable && !session.closed.aborted) this.#keep(key, session);
        else session[Symbol.dispose]();
      },
    };
  }

  /** Drops the sessions of a pod: its machine sleeps, or runs elsewhere. */
  forget(target: Pick<PodTarget, "namespace" | "pod">): void {
    const prefix = `${target.namespace}/${target.pod} `;
    for (const [key, idle] of this.#idle)
      if (key.startsWith(prefix)) {
        this.#idle.delete(key);
        for (const each of idle) close(each);
      }
  }

  /** Runs a command of the guest to its end. */
  async run(
    target: PodTarget,
    { command, input }: { readonly command: readonly string[]; readonly input: string },
    { signal }: Abortable,
  ): Promise<void> {
    const query = new URLSearchParams([
      ["stdin", "true"],
      ["stdout", "true"],
      ["stderr", "true"],
      ...command.map((word) => ["command", word] as [string, string]),
    ]);
    const transport = await this.#upgrade(target, `exec?${query.toString()}`, commandProtocol, { signal });
    const cut = () => transport.destroy();
    signal.addEventListener("abort", cut, { once: true });
    try {
      const { status, stderr } = await runSpdyCommand(transport, input);
      const { status: outcome, message } = (tryParseJson(status) ?? {}) as {
        status?: string;
        message?: string;
      };
      if (outcome !== "Success")
        throw new Fault("unavailable", `${command.join(" ")}: ${stderr.trim() || message || status}`);
    } finally {
      signal.removeEventListener("abort", cut);
    }
  }

  [Symbol.dispose](): void {
    for (const idle of this.#idle.values()) for (const each of idle) close(each);
    this.#idle.clear();
  }

  async #openSession(target: PodTarget, options: Abortable): Promise<PortForwardClient> {
    return new PortForwardClient(await this.#upgrade(target, "portforward", portForwardProtocol, options));
  }

  // oxlint-disable-next-line max-params -- what, by which protocol
  #upgrade(target: PodTarget, request: string, protocol: string, { signal }: Abortable): Promise<Duplex> {
    const { namespace, pod, headers } = target;
    return this.#client.upgrade({
      path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/${request}`,
      protocol: spdyUpgrade,
      headers: { ...headers, "x-stream-protocol-version": protocol },
      timeoutMs: upgradeMs,
      signal,
    });
  }

  #takeIdle(key: string): PortForwardClient | undefined {
    const idle = this.#idle.get(key);
    for (let found = idle?.pop(); found; found = idle?.pop()) {
      clearTimeout(found.timer);
      if (!found.session.closed.aborted) return found.session;
    }
    return undefined;
  }

  #keep(key: string, session: PortForwardClient): void {
    const idle = this.#idle.get(key) ?? [];
    if (idle.length >= mostIdle) {
      session[Symbol.dispose]();
      return;
    }
    const timer = setTimeout(() => {
      const at = idle.findIndex((each) => each.session === session);
      if (at >= 0) idle.splice(at, 1);
      if (idle.length === 0) this.#idle.delete(key);
      session[Symbol.dispose]();
    }, idleMs);
    idle.push({ session, timer: timer.unref() });
    this.#idle.set(key, idle);
  }
}

function close({ session, timer }: Idle): void {
  clearTimeout(timer);
  session[Symbol.dispose]();
}

function sessionKey({ namespace, pod, headers }: PodTarget): string {
  return `${namespace}/${pod} ${headers["impersonate-user"] ?? ""}`;
}
