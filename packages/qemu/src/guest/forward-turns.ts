/**
 * QEMU's listener of a forwarded port holds two connections that it has not taken yet; the kernel resets what comes
 * beyond that, and the guest never hears of it. So connections to one port are made one after the other, each when
 * QEMU has taken the one before.
 */
import { readFile } from "node:fs/promises";
import { sleep, type Abortable } from "@cocoon/core";
import type { PortForward } from "@cocoon/vm";

type HostEnd = Pick<PortForward, "hostAddress" | "hostPort">;

const pollMs = 2;
/** A QEMU that takes nothing for so long hangs; then the caller's own connection shows it. */
const timeoutMs = 2_000;

const last = new Map<string, Promise<unknown>>();

/** Runs `connect` in its turn. */
export function runInTurn<T>(end: HostEnd, connect: () => Promise<T>, options: Abortable): Promise<T> {
  const key = `${end.hostAddress}:${end.hostPort}`;
  const turn = (last.get(key) ?? Promise.resolve()).then(async () => {
    await awaitAccepted(end, options);
    return connect();
  });
  const over = turn.then(
    () => undefined,
    () => undefined,
  );
  last.set(key, over);
  void over.then(() => (last.get(key) === over ? last.delete(key) : undefined));
  return turn;
}

async function awaitAccepted(end: HostEnd, { signal }: Abortable): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline && !signal.aborted) {
    const table = await readFile("/proc/net/tcp", "utf8").catch(() => "");
    if (countWaiting(table, end) === 0) return;
    await sleep(pollMs, { signal });
  }
}

const listening = "0A";

/** How many connections wait for the listener there, by the kernel's table; 0 without a listener. */
export function countWaiting(table: string, { hostAddress, hostPort }: HostEnd): number {
  const address = Buffer.from(hostAddress.split(".").map(Number)).readUInt32LE(0);
  const hex = (value: number, digits: number) => value.toString(16).toUpperCase().padStart(digits, "0");
  const from = ` ${hex(address, 8)}:${hex(hostPort, 4)} 00000000:0000 ${listening} `;
  const at = table.indexOf(from);
  if (at < 0) return 0;
  const [, received = "0"] = table.slice(at + from.length, at + from.length + 17).split(":");
  return Number.parseInt(received, 16);
}
