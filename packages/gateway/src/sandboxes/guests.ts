/** The guests of sandboxes: how to reach them, and what they must know before they serve requests. */
import { withDeadline, type Abortable } from "@cocoon/core";
import { Guest } from "../guest/guest.ts";
import { guestPort } from "../guest/protocol.ts";
import type { PodAccess, PodConnection, PodTarget } from "../cluster/pod-access.ts";
import { impersonate } from "../tenants/tenant.ts";
import { getPodName, getUser, type Sandbox } from "./sandbox.ts";
import type { Tokens } from "./tokens.ts";

/** The agent runs it as a child of its own: this is the agent's program, wherever it lies in the guest. */
const serveCommand = ["/proc/self/exe", "serve"];

/** A guest on a busy node may take seconds. */
const answerMs = 10_000;

type Owner = Pick<Sandbox, "namespace" | "id">;

export class Guests {
  readonly #pods: PodAccess;
  readonly #tokens: Tokens;
  readonly #open = new Map<string, Set<AbortController>>();
  readonly #checking = new Set<string>();

  constructor(pods: PodAccess, tokens: Tokens) {
    this.#pods = pods;
    this.#tokens = tokens;
  }

  open(sandbox: Sandbox): Guest {
    const pod = target(sandbox);
    return new Guest(
      {
        connect: (options) => this.#pods.connect(pod, guestPort, options),
        prepare: (options) => this.prepare(sandbox, options),
      },
      this.#tokens.compute("guest", sandbox),
    );
  }

  /** A connection to any port of the guest. */
  connect(sandbox: Sandbox, { port, signal }: Abortable & { readonly port: number }): Promise<PodConnection> {
    return this.#pods.connect(target(sandbox), port, { signal });
  }

  async prepare(sandbox: Sandbox, options: Abortable): Promise<void> {
    const { spec, id } = sandbox;
    const own = { E2B_SANDBOX: "true", E2B_SANDBOX_ID: id, E2B_TEMPLATE_ID: spec.template };
    const env = Object.entries({ ...own, ...spec.env }).map(([name, value]) => `${name}=${value}`);
    const token = this.#tokens.compute("guest", sandbox);
    const input = `${JSON.stringify({ token, user: spec.user || "user", env })}\n`;
    await this.#pods.run(target(sandbox), { command: serveCommand, input }, options);
  }

  /** A signal for a stream of this sandbox: it aborts when the stream's client leaves or the sandbox is killed. */
  track(sandbox: Owner): AbortController {
    const key = `${sandbox.namespace}/${sandbox.id}`;
    const streams = this.#open.get(key) ?? new Set();
    const controller = new AbortController();
    this.#open.set(key, streams.add(controller));
    controller.signal.addEventListener("abort", () => {
      streams.delete(controller);
      if (streams.size === 0 && this.#open.get(key) === streams) this.#open.delete(key);
    });
    return controller;
  }

  /** Connections of before are of no use after a pause or a wake. */
  forget(sandbox: Owner): void {
    this.#pods.forget({ namespace: sandbox.namespace, pod: getPodName(sandbox) });
  }

  /** Whether the guest serves requests now. Throws only when the caller's signal aborts. */
  async answers(sandbox: Sandbox, { signal }: Abortable): Promise<boolean> {
    try {
      await this.open(sandbox).call({ op: "ping" }, { signal: withDeadline(signal, answerMs) });
      return true;
    } catch {
      signal.throwIfAborted();
      return false;
    }
  }

  /** Resets the streams of a guest that answers no more: one whose node is lost sends nothing, not even an end. */
  async cutUnlessAlive(sandbox: Sandbox): Promise<void> {
    const key = `${sandbox.namespace}/${sandbox.id}`;
    if (!this.#open.has(key) || this.#checking.has(key)) return;
    this.#checking.add(key);
    try {
      if (!(await this.answers(sandbox, { signal: new AbortController().signal }))) this.cut(sandbox);
    } finally {
      this.#checking.delete(key);
    }
  }

  /** The sandbox is gone: its streams are reset. */
  cut(sandbox: Owner): void {
    this.forget(sandbox);
    const streams = this.#open.get(`${sandbox.namespace}/${sandbox.id}`) ?? new Set();
    for (const stream of streams) stream.abort(new Error("the sandbox is gone"));
  }
}

function target(sandbox: Sandbox): PodTarget {
  return {
    namespace: sandbox.namespace,
    pod: getPodName(sandbox),
    headers: impersonate({ user: getUser(sandbox) }),
  };
}
