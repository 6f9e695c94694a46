/** A process that was killed and cannot end, because one of its threads waits for content that does not come. */
import { tryReadFile } from "@cocoon/core";

const killBit = 0x100n;

/** Its first thread has ended or SIGKILL is pending for it. */
export async function isBeingKilled(pid: number): Promise<boolean> {
  return parseStatus((await tryReadFile(`/proc/${pid}/status`).catch(() => "")) ?? "");
}

/** Text of `/proc/PID/status`. */
export function parseStatus(text: string): boolean {
  if (/^State:\s*Z/m.test(text)) return true;
  const masks = [...text.matchAll(/^(?:Sig|Shd)Pnd:\s*([0-9a-f]{1,16})$/gm)];
  return masks.some(([, mask]) => (BigInt(`0x${mask}`) & killBit) !== 0n);
}
