/** A port of this host that leads to a port of a guest, by kubectl port-forward. It listens on loopback. */
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { Fault, withDeadline } from "@cocoon/core";
import type { Guest } from "./kubectl-program.ts";

export interface Forward {
  readonly child: ChildProcess;
  readonly port: number;
}

const forwardMs = 20_000;

export function readGuestPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new Fault("badRequest", `--port ${text} is not a port number (1 to 65535)`);
}

/** kubectl chooses the port and prints it on its first line. */
export async function startForward({ session, name, start }: Guest, guestPort: number): Promise<Forward> {
  const args = ["port-forward", "--address", "127.0.0.1", `pod/${name}`, `:${guestPort}`];
  const child = await start(args, { stdio: ["ignore", "pipe", "pipe"] });
  let complaint = "";
  child.stderr
    ?.setEncoding("utf8")
    .on("data", (text: string) => (complaint = (complaint + text).slice(-2_000)));
  const signal = withDeadline(session.signal, forwardMs);
  const stop = () => child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  try {
    const port = await announcedPort(child);
    child.stdout?.resume(); // the rest of its output must not fill the pipe
    if (port !== undefined) return { child, port };
    throw new Fault(
      "unavailable",
      `no port could be forwarded to ${name}: ${complaint.trim() || "kubectl ended without a message"}`,
    );
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Undefined when the child ends without having printed one. */
async function announcedPort({ stdout }: ChildProcess): Promise<number | undefined> {
  if (!stdout) return undefined;
  const lines = createInterface({ input: stdout });
  for await (const line of lines) {
    const port = readForwardedPort(line);
    if (port !== undefined) return port;
  }
  return undefined;
}

export function readForwardedPort(line: string): number | undefined {
  const match = /^Forwarding from 127\.0\.0\.1:(\d+) -> /.exec(line);
  return match ? Number(match[1]) : undefined;
}
