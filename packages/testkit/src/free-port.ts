/** A port for a program that takes its port as a number: free when it was looked at, and nobody else's while we live. */
import { reservePort } from "@cocoon/controlplane";

export async function freePort(): Promise<number> {
  const { port } = await reservePort();
  return port;
}
