/** Waits until requests are fulfilled: polls, shows progress and what stands in the way, and ends at a deadline. */
import { Fault, isFault, getErrorMessage, sleep, tryParseDuration, type Abortable } from "@cocoon/core";
import { ProgressLine } from "../progress-line.ts";
import type { Session } from "./session.ts";

export interface WaitOptions {
  readonly timeout: string;
  readonly wait: boolean;
  /** Where results go; default: standard output. */
  readonly results?: "stderr";
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
  /** What stands in its way; "" when nothing is known. Called now and then. */
  readonly explain?: () => Promise<string>;
}

export interface WaitContext extends Abortable {
  readonly timeoutMs: number;
  readonly progress: Pick<ProgressLine, "show" | "print">;
  /** Parts that must act and are down; "" when all run. Called now and then. */
  readonly findDownParts?: () => Promise<string>;
  readonly intervalMs?: number;
  readonly now?: () => number;
}

/** Obstacles are looked for after this time, and again after as long. */
const obstaclesEveryMs = 4_000;

const longestWaitMs = 24 * 3_600_000;

export function readTimeout(text: string): number {
  const ms = tryParseDuration(/^\d+$/.test(text) ? `${text}s` : text);
  if (ms !== undefined && ms > 0 && ms <= longestWaitMs) return ms;
  throw new Fault("badRequest", `--timeout ${text}: write a duration such as 90s or 5m, at most 24h`);
}

export async function waitForAll(all: readonly Awaited[], context: WaitContext): Promise<void> {
  const { signal, timeoutMs, progress, intervalMs = 400, now = () => performance.now() } = context;
  const began = now();
  let left = [...all];
  let obstacles = "";
  let checkedAt = began;
  for (;;) {
    const texts = new Map<string, string>();
    for (const each of left) {
      const look = await lookOnce(each, context);
      if (look.kind === "done") {
        left = left.filter((other) => other !== each);
        progress.print(look.text);
      } else texts.set(each.name, look.text);
    }
    if (left.length === 0) return;
    if (now() - checkedAt >= obstaclesEveryMs) {
      obstacles = await findObstacles(left, context);
      checkedAt = now();
    }
    const state = [...texts].map(([name, text]) => `${name}: ${text}`).join(" | ") + obstacles;
    progress.show(state, now() - began);
    if (now() - began >= timeoutMs) throw tooLate(state, timeoutMs);
    if (!(await sleep(intervalMs, { signal }))) signal.throwIfAborted();
  }
}

/** In parentheses; "" when there are none, or when they cannot be looked up now. */
async function findObstacles(left: readonly Awaited[], context: WaitContext): Promise<string> {
  try {
    const parts = (await context.findDownParts?.()) ?? "";
    const reasons = await Promise.all(left.map(async ({ explain }) => (await explain?.()) ?? ""));
    const found = [parts, ...reasons].filter((text) => text !== "");
    return found.length === 0 ? "" : ` (${found.join("; ")})`;
  } catch (error) {
    if (context.signal.aborted || !isFault(error)) throw error;
    return ` (${getErrorMessage(error)})`;
  }
}

/** An API server that does not answer for a moment does not end the wait. */
async function lookOnce({ look }: Awaited, { signal }: WaitContext): Promise<Look> {
  try {
    return await look();
  } catch (error) {
    if (signal.aborted || !isFault(error) || !["unavailable", "tooManyRequests"].includes(error.code))
      throw error;
    return { kind: "waiting", text: `the API server does not answer: ${getErrorMessage(error)}` };
  }
}

function tooLate(state: string, timeoutMs: number): Fault {
  const seconds = Math.round(timeoutMs / 100) / 10;
  return new Fault(
    "timeout",
    `not done after ${seconds} s (${state}). The request was submitted and will continue; \`get\` and \`events\` show its progress, --timeout waits longer`,
  );
}

export type Waiter = (all: readonly Awaited[], session: Session) => Promise<void>;

/** Read before anything is written, so that a mistyped duration changes nothing. Without `--wait` it does not wait. */
export function createWaiter({ timeout, wait, results }: WaitOptions): Waiter {
  const timeoutMs = readTimeout(timeout);
  return async (all, session) => {
    if (!wait) return;
    using progress = new ProgressLine(process.stderr, results === "stderr" ? process.stderr : process.stdout);
    const findDownParts = async () => (await import("./obstacles.ts")).findDownParts(session);
    await waitForAll(all, { signal: session.signal, timeoutMs, progress, findDownParts });
  };
}
