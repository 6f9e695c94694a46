/**
 * A replica of a leader-elected program, as a process of its own: the leader adds to a counter object as fast as it
 * can, and notes in it who did so. The object is only written with the version that was read, so its history is the
 * order in which the server saw the leaders act. The replica does not look at the history: were there two leaders,
 * they would show.
 */
import { aborted, abortOnSignals, createLogger, isFault, getErrorMessage } from "@cocoon/core";
import { openKubeClient, configMaps, type ConfigMap, type KubeClient } from "@cocoon/kube";
import { guardedClient, lead, type Leadership } from "@cocoon/kube/controller";

export const replicaScript = import.meta.filename;
export const counterName = "counter";

/** Shorter than the defaults, so that tests need not wait, but long enough for a busy machine. */
export const times = { leaseDurationMs: 10_000, renewDeadlineMs: 7_000, retryPeriodMs: 1_000 };

/** Consecutive acts of one leader. */
export interface Reign {
  readonly identity: string;
  readonly epoch: number;
  readonly acts: number;
}

export function readHistory(counter: ConfigMap | undefined): readonly Reign[] {
  return JSON.parse(counter?.data?.["history"] ?? "[]") as Reign[];
}

async function act(client: KubeClient, leadership: Leadership, namespace: string): Promise<void> {
  const options = { signal: leadership.signal };
  const counter = await client.get(configMaps, { namespace, name: counterName }, options);
  const history = [...readHistory(counter)];
  const { identity, epoch } = leadership;
  const last = history.at(-1);
  if (last?.identity === identity && last.epoch === epoch)
    history[history.length - 1] = { ...last, acts: last.acts + 1 };
  else history.push({ identity, epoch, acts: 1 });
  const count = String(Number(counter.data?.["count"] ?? 0) + 1);
  await client.update(configMaps, { ...counter, data: { count, history: JSON.stringify(history) } }, options);
}

async function main([namespace = "", identity = ""]: readonly string[]): Promise<void> {
  const signal = abortOnSignals();
  const log = createLogger({ name: identity, level: "debug" });
  await using client = await openKubeClient({ signal });
  const lease = { namespace, name: "replicas" };
  await lead({ client, lease, identity, signal, log, ...times }, async (leadership) => {
    const guarded = guardedClient(client, leadership);
    while (!signal.aborted && !leadership.signal.aborted) {
      try {
        await act(guarded, leadership, namespace);
      } catch (error) {
        if (leadership.signal.aborted) return;
        if (!isFault(error, "conflict")) log.warn({ error: getErrorMessage(error) }, "could not act");
      }
      // As often as possible, but without keeping the server busy.
      await Promise.race([aborted(signal), new Promise((resolve) => setTimeout(resolve, 20))]);
    }
  });
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    console.error(getErrorMessage(error));
    process.exitCode = 1;
  }
}
