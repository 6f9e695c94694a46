/** Sends reviews over TLS, so many at a time, each once, and looks at what was granted. */
import { Pool } from "undici";

export interface BurstOptions {
  readonly port: number;
  readonly bodies: readonly string[];
  readonly concurrency: number;
  /** Gives up after this time; what was answered until then counts. */
  readonly forMs: number;
}

export interface BurstReport {
  readonly answered: number;
  readonly refused: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly duplicates: number;
}

export async function burst({ port, bodies, concurrency, forMs }: BurstOptions): Promise<BurstReport> {
  await using pool = disposable(port, concurrency);
  const latencies: number[] = [];
  const names: string[] = [];
  let refused = 0;
  let next = 0;
  const started = performance.now();
  const worker = async (): Promise<void> => {
    while (next < bodies.length && performance.now() - started < forMs) {
      const body = bodies[next];
      next += 1;
      const sent = performance.now();
      const { body: answer } = await pool.request({
        path: "/mutate?timeout=30s",
        method: "POST",
        headers: { "content-type": "application/json" },
        body: body ?? "",
      });
      const name = nameIn(await answer.text());
      latencies.push(performance.now() - sent);
      if (name === undefined) refused += 1;
      else names.push(name);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  const seconds = (performance.now() - started) / 1000;
  const sorted = latencies.toSorted((left, right) => left - right);
  const quantile = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
  return {
    answered: names.length,
    refused,
    perSecond: names.length / seconds,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    duplicates: names.length - new Set(names).size,
  };
}

function disposable(port: number, connections: number): Pool & AsyncDisposable {
  const connect = { rejectUnauthorized: false };
  const pool = new Pool(`https://127.0.0.1:${port}`, { connections, pipelining: 1, connect });
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.close() });
}

function nameIn(text: string): string | undefined {
  const { response } = JSON.parse(text) as { response: { patch?: string } };
  if (response.patch === undefined) return undefined;
  const patch = JSON.parse(Buffer.from(response.patch, "base64").toString()) as {
    path: string;
    value: string;
  }[];
  return patch.find(({ path }) => path.endsWith("vm.cocoonstack.io~1name"))?.value;
}
