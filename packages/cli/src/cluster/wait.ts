/** Waiting for what was asked for: looked at again and again, with a line that says how far it is, until a deadline. */
import { Fault, isFault, messageOf, sleep, tryParseDuration, type Abortable } from "@cocoon/core";
import { ProgressLine } from "../progress-line.ts";

export interface WaitOptions {
  /** Go duration, such as 90s or 5m. */
  readonly timeout: string;
  readonly wait: boolean;
}

export type Look =
  /** Not there yet; the text says how far. */
  | { readonly kind: "waiting"; readonly text: string }
  /** There; the text is the last word about it. */
  | { readonly kind: "done"; readonly text: string };

export interface Awaited {
  readonly name: string;
  /** May be called any number of times. Throws when it can never come true any more. */
  readonly look: () => Promise<Look>;
}

export interface WaitContext extends Abortable {
  readonly timeoutMs: number;
  readonly progress: Pick<ProgressLine, "show" | "say">;
  readonly intervalMs?: number;
  readonly now?: () => number;
}

const longestWaitMs = 24 * 3_600_000;

export function readTimeout(text: string): number {
  const ms = tryParseDuration(/^\d+$/.test(text) ? `${text}s` : text);
  if (ms !== undefined && ms > 0 && ms <= longestWaitMs) return ms;
  throw new Fault("badRequest", `--timeout ${text}: write a duration such as 90s or 5m, at most 24h`);
}

/** Waits for all of them; each is announced when it is there. */
export async function waitForAll(all: readonly Awaited[], context: WaitContext): Promise<void> {
  const { signal, timeoutMs, progress, intervalMs = 400, now = () => performance.now() } = context;
  const began = now();
  let left = [...all];
  for (;;) {
    const texts = new Map<string, string>();
    for (const each of left) {
      const look = await lookOnce(each, context);
      if (look.kind === "done") {
        left = left.filter((other) => other !== each);
        progress.say(look.text);
      } else texts.set(each.name, look.text);
    }
    if (left.length === 0) return;
    const state = [...texts].map(([name, text]) => `${name}: ${text}`).join(" | ");
    progress.show(state, now() - began);
    if (now() - began >= timeoutMs) throw tooLate(state, timeoutMs);
    if (!(await sleep(intervalMs, { signal }))) signal.throwIfAborted();
  }
}

/** An API server that is away for a moment does not end the wait. */
async function lookOnce({ look }: Awaited, { signal }: WaitContext): Promise<Look> {
  try {
    return await look();
  } catch (error) {
    if (signal.aborted || !isFault(error) || !["unavailable", "tooManyRequests"].includes(error.code))
      throw error;
    return { kind: "waiting", text: `cannot ask now: ${messageOf(error)}` };
  }
}

function tooLate(state: string, timeoutMs: number): Fault {
  const seconds = Math.round(timeoutMs / 100) / 10;
  return new Fault(
    "timeout",
    `not there after ${seconds} s (${state}). What was asked for stays asked; \`get\` and \`events\` show how it goes on, --timeout waits longer`,
  );
}

export type Waiter = (all: readonly Awaited[], options: Abortable) => Promise<void>;

/** Read before anything is written, so that a mistyped duration changes nothing. Without `--wait` it does not wait. */
export function waiterOf({ timeout, wait }: WaitOptions): Waiter {
  const timeoutMs = readTimeout(timeout);
  return async (all, { signal }) => {
    if (!wait) return;
    using progress = new ProgressLine(process.stderr, process.stdout);
    await waitForAll(all, { signal, timeoutMs, progress });
  };
}
