/**
 * What the supervisor publishes for `status` and for waiting commands:
 *
 *   <dir>/run/restarts   per component: restarts so far, when the last one was, and what a pending one waits for
 */
import { join } from "node:path";
import { tryIdentify, isAlive, processIdentitySchema, tryReadJson, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";

const stateSchema = z.object({
  restarts: z.int().nonnegative().default(0),
  lastRestartAt: z.string().optional(),
  /** Set while the component is down and will be started again. */
  pending: z.object({ dueAt: z.string(), reason: z.string().optional() }).optional(),
});
const fileSchema = z.object({
  supervisor: processIdentitySchema,
  components: z.record(z.string(), stateSchema),
});
export type RestartState = Readonly<z.infer<typeof stateSchema>>;

function statePath(directory: string): string {
  return join(directory, "run", "restarts");
}

/** As the supervisor wrote it last; without pending restarts when that supervisor is no longer running. */
export async function readRestartStates(directory: string): Promise<ReadonlyMap<string, RestartState>> {
  const file = await tryReadJson(statePath(directory), fileSchema);
  if (!file) return new Map();
  const running = isAlive(file.supervisor);
  const entries = Object.entries(file.components);
  return new Map(
    entries.map(([name, state]) => [name, running ? state : { ...state, pending: undefined }] as const),
  );
}

/** Whether a supervisor is running and has read this directory. */
export async function isSupervised(directory: string): Promise<boolean> {
  const file = await tryReadJson(statePath(directory), fileSchema);
  return file !== undefined && isAlive(file.supervisor);
}

export class RestartStates {
  readonly #directory: string;
  readonly #states: Map<string, RestartState>;
  #writing: Promise<void> = Promise.resolve();

  private constructor(directory: string, states: Map<string, RestartState>) {
    this.#directory = directory;
    this.#states = states;
  }

  /** Counts go on where the supervisor before stopped. */
  static async open(directory: string): Promise<RestartStates> {
    const known = await readRestartStates(directory);
    const states = new RestartStates(directory, new Map(known));
    await states.#write();
    return states;
  }

  count(name: string): number {
    return this.#states.get(name)?.restarts ?? 0;
  }

  setPending(name: string, inMs: number, reason?: string): Promise<void> {
    const known = this.#states.get(name);
    if (known?.pending && known.pending.reason === reason) return Promise.resolve();
    const dueAt = new Date(Date.now() + inMs).toISOString();
    this.#states.set(name, { ...known, restarts: this.count(name), pending: { dueAt, reason } });
    return this.#write();
  }

  clearPending(name: string): Promise<void> {
    this.#states.set(name, { ...this.#states.get(name), restarts: this.count(name), pending: undefined });
    return this.#write();
  }

  addRestart(name: string): Promise<void> {
    this.#states.set(name, { restarts: this.count(name) + 1, lastRestartAt: new Date().toISOString() });
    return this.#write();
  }

  /** One write after the other: components change their states at the same time. A failed one does not keep the next from its turn. */
  #write(): Promise<void> {
    const before = this.#writing.catch(() => undefined); // reported to the component that wrote
    this.#writing = before.then(async () => {
      const supervisor = tryIdentify(process.pid);
      const text = JSON.stringify({ supervisor, components: Object.fromEntries(this.#states) });
      await writeFileAtomically(statePath(this.#directory), `${text}\n`, { mode: 0o600, sync: false });
    });
    return this.#writing;
  }
}
