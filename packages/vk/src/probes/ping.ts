/** ICMP by the `ping` program, which may open the socket that we may not. Few at a time. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { getErrorMessage, type Logger } from "@cocoon/core";
import type { Ping } from "./checks.ts";

const run = promisify(execFile);
const maxAtOnce = 32;

/** Undefined, with one warning, when there is no ping that works: a known address then counts as ready. */
export async function findPing(log: Logger): Promise<Ping | undefined> {
  try {
    await run("ping", ["-n", "-c", "1", "-W", "1", "127.0.0.1"], { timeout: 5_000 });
  } catch (error) {
    log.warn(
      { error: getErrorMessage(error) },
      "ping does not work here (install iputils-ping); machines with a known address count as ready",
    );
    return undefined;
  }
  return limitedPing();
}

function limitedPing(): Ping {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (ip, { signal }) => {
    if (running >= maxAtOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    running += 1;
    try {
      await run("ping", ["-n", "-c", "1", "-W", "2", "--", ip], { signal, timeout: 3_000 });
      return { ok: true, message: "ping ok" };
    } catch (error) {
      return { ok: false, message: `ping failed: ${getErrorMessage(error).split("\n", 1)[0]}` };
    } finally {
      running -= 1;
      waiting.shift()?.();
    }
  };
}
