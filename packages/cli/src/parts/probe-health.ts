/** Asks a part of ours whether it is ready; throws what it says when it is not. */
import { Fault, type Abortable } from "@cocoon/core";
import { loopback } from "./part.ts";

export async function probeHealth(port: number, { signal }: Abortable): Promise<void> {
  const response = await fetch(`http://${loopback}:${port}/readyz`, { signal });
  const text = await response.text();
  if (!response.ok) throw new Fault("unavailable", `not ready: ${text.slice(0, 300).trim()}`);
}
