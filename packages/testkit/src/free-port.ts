/** A port for a program that takes its port as a number: free when it was looked at, and not given to others in this process. */
import { reservePort } from "@cocoon/controlplane";

export async function freePort(): Promise<number> {
  await using reserved = await reservePort();
  return reserved.port;
}
