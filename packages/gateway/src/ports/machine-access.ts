/**
 * Machines of any set, for requests to their ports. A caller shows a token of a ServiceAccount or an API key, and acts with its rights:
 * the API server decides. Other users were checked before (visitors.ts); the gateway then acts by itself. A set opens ports to all, and asks for wakes, by annotation; these are done as the account `cocoon-sandbox` of its namespace.
 */
import { apiVersion, gatewayKey, readHibernate, readMachineState } from "@cocoon/contract";
import { isFault, sleep, type Abortable } from "@cocoon/core";
import type { KubeConnection, Pod, RawRequest } from "@cocoon/kube";
import type { PodAccess, PodConnection } from "../cluster/pod-access.ts";
import { tryReadPod } from "../cluster/read-pod.ts";
import { cocoonSets, type SetObject } from "../sandboxes/sandbox.ts";
import { impersonate, sandboxAccount } from "../tenants/tenant.ts";
import { TrafficError } from "./data-plane.ts";
import { ExpiringMap } from "./expiring-map.ts";
import type { MachineTarget } from "./target.ts";

type Owner = Pick<MachineTarget, "namespace" | "machine">;

/** How long what was read of a machine is believed. */
const seenMs = 2_000;
const pollMs = 500;
const lookupMs = 10_000;

export interface MachineAccessOptions {
  readonly client: KubeConnection;
  readonly pods: PodAccess;
}

export class MachineAccess {
  readonly #options: MachineAccessOptions;
  readonly #pods = new ExpiringMap<Pod | undefined>(seenMs);
  readonly #sets = new ExpiringMap<SetObject | undefined>(seenMs);

  constructor(options: MachineAccessOptions) {
    this.#options = options;
  }

  connect({ namespace, machine, port }: MachineTarget, { user, signal }: Call): Promise<PodConnection> {
    const target = { namespace, pod: machine, headers: user === undefined ? {} : impersonate({ user }) };
    return this.#options.pods.connect(target, port, { signal });
  }

  forget({ namespace, machine }: Owner): void {
    this.#options.pods.forget({ namespace, pod: machine });
  }

  /** Whom a request without a token acts as: throws 403 unless the set opened the port to all. */
  async requirePublic(target: MachineTarget): Promise<string> {
    const set = await this.#findSet(target);
    const open = (set?.metadata.annotations?.[gatewayKey.publicPorts] ?? "").split(",").map(Number);
    if (open.includes(target.port)) return sandboxAccount(target.namespace);
    throw new TrafficError(
      403,
      "open the port from the dashboard, or send a Kubernetes token or an API key with rights on the pod in the header Cocoon-Token",
    );
  }

  /** Whether it serves requests, sleeps, or is on its way. Throws 403 for a caller that may not see it. */
  async readState(target: Owner, call: Call): Promise<"ready" | "asleep"> {
    const pod = await this.#findPod(target, call);
    if (pod && readMachineState(pod).state === "ready") return "ready";
    const set = await this.#findSet(target);
    if (!pod && !set) throw new TrafficError(502, "The machine was not found");
    return "asleep";
  }

  /** Resolves when it is ready. Throws 502 for one that no traffic may wake. */
  async wake(target: Owner, { signal }: Abortable): Promise<void> {
    const call = { user: sandboxAccount(target.namespace), signal };
    const set = await this.#findSet(target);
    const pod = await this.#readPod(target, call);
    const isSuspended = set?.spec?.suspend === true;
    if (isSuspended || readHibernate(pod?.metadata.annotations)) {
      assertWakes(set);
      if (isSuspended) await this.#resume(set, call);
      else await this.#requestWake(target, call);
    }
    this.forget(target);
    await this.#awaitReady(target, call);
    this.#pods.clear();
    this.#sets.clear();
  }

  async #awaitReady(target: Owner, call: Call): Promise<void> {
    for (;;) {
      const pod = await this.#readPod(target, call);
      if (pod && readMachineState(pod).state === "ready") return;
      if (!(await sleep(pollMs, call))) call.signal.throwIfAborted();
    }
  }

  async #resume({ metadata }: SetObject, { user, signal }: AccountCall): Promise<void> {
    await this.#send({
      method: "PATCH",
      path: `${setsPath(metadata.namespace ?? "")}/${metadata.name ?? ""}`,
      contentType: "application/merge-patch+json",
      body: { metadata: { uid: metadata.uid }, spec: { suspend: null } },
      headers: impersonate({ user }),
      signal,
    });
  }

  /** One CocoonHibernation describes one wake: a completed one is replaced. */
  async #requestWake({ namespace, machine }: Owner, { user, signal }: AccountCall): Promise<void> {
    const headers = impersonate({ user });
    const collection = `/apis/${apiVersion}/namespaces/${namespace}/cocoonhibernations`;
    const path = `${collection}/${machine}`;
    const body = {
      apiVersion,
      kind: "CocoonHibernation",
      metadata: { namespace, name: machine },
      spec: { podRef: { name: machine }, desire: "Wake" },
    };
    for (;;) {
      try {
        await this.#send({ method: "POST", path: collection, body, headers, signal });
        return;
      } catch (error) {
        if (!isFault(error, "alreadyExists")) throw error;
      }
      const known = (await this.#tryRead({ method: "GET", path, headers, signal })) as
        | { spec?: { desire?: string }; status?: { phase?: string } }
        | undefined;
      if (known?.spec?.desire === "Wake" && known.status?.phase !== "Active") return;
      await this.#tryRead({ method: "DELETE", path, headers, signal });
      if (!(await sleep(pollMs, { signal }))) signal.throwIfAborted();
    }
  }

  #findPod(target: Owner, call: Call): Promise<Pod | undefined> {
    const key = `${call.user ?? ""} ${target.namespace}/${target.machine}`;
    // Not the caller's own signal: others wait for the same answer.
    const signal = AbortSignal.timeout(lookupMs);
    return this.#pods.get(key, () => this.#readPod(target, { user: call.user, signal }));
  }

  #readPod({ namespace, machine }: Owner, { user, signal }: Call): Promise<Pod | undefined> {
    return tryReadPod(this.#options.client, { namespace, pod: machine, user, signal });
  }

  #findSet({ namespace, machine }: Owner): Promise<SetObject | undefined> {
    const signal = AbortSignal.timeout(lookupMs);
    return this.#sets.get(`${namespace}/${machine}`, () => this.#readSet(namespace, machine, { signal }));
  }

  /** A pod is named after its set and its slot or toolbox, both of which may contain "-". */
  // oxlint-disable-next-line max-params -- whose, which
  async #readSet(namespace: string, machine: string, { signal }: Abortable): Promise<SetObject | undefined> {
    for (let end = machine.lastIndexOf("-"); end > 0; end = machine.lastIndexOf("-", end - 1)) {
      const name = machine.slice(0, end);
      const path = `${setsPath(namespace)}?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
      const { items = [] } = (await this.#send({ method: "GET", path, signal })) as { items?: SetObject[] };
      if (items[0]) return items[0];
    }
    return undefined;
  }

  async #tryRead(request: RawRequest): Promise<unknown> {
    try {
      return await this.#send(request);
    } catch (error) {
      if (isFault(error, "notFound")) return undefined;
      throw error;
    }
  }

  #send(request: RawRequest): Promise<unknown> {
    return this.#options.client.raw(request);
  }
}

function assertWakes(set: SetObject | undefined): void {
  if (set?.metadata.annotations?.[gatewayKey.wakeOnTraffic] === "true") return;
  throw new TrafficError(
    502,
    `The machine sleeps; its set has no annotation ${gatewayKey.wakeOnTraffic}=true`,
  );
}

interface Call extends Abortable {
  /** Undefined: the gateway itself, for a user whose rights were checked. */
  readonly user: string | undefined;
}

interface AccountCall extends Call {
  readonly user: string;
}

function setsPath(namespace: string): string {
  return `/apis/${cocoonSets.group}/${cocoonSets.version}/namespaces/${namespace}/cocoonsets`;
}
