/** How much of what a guest gives directly (SSH, TCP) is left when it is reached through the API server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { connect } from "node:net";
import { runCommand, temporaryDirectory, type OwnControlPlane } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import { startEcho, startForward } from "../../test/integration/vk/forwarding.ts";
import { newClients, openRealGuest, type RealGuest } from "../../test/integration/vk/real-guest.ts";
import { computePercentiles, computeSpread, type Spread } from "../report.ts";
import { openExecClient } from "./exec-client.ts";

export interface GuestAccess {
  readonly execTrueMs: { readonly p50: number; readonly p99: number };
  readonly stdoutMBps: Spread;
  readonly sshStdoutMBps: Spread;
  readonly forwardMBps: Spread;
  readonly tcpMBps: Spread;
  readonly forwardWebSocketMBps: Spread;
}

const echoPort = 7007;

export async function measureGuestAccess(
  cluster: OwnControlPlane,
  options: { readonly rounds: number; readonly megabytes: number; readonly execs: number },
): Promise<GuestAccess> {
  await using keys = await temporaryDirectory();
  const keyFile = join(keys.path, "key");
  await runCommand("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", keyFile]);
  const sshKeys = [(await readFile(`${keyFile}.pub`, "utf8")).trim()];
  let runtime: VmRuntime | undefined;
  await using guest = await openRealGuest(cluster, {
    changes: { sshKeys },
    wrap: (opened) => (runtime = opened),
  });
  if (!runtime) throw new Error("the node has no runtime");
  const bytes = options.megabytes * 1_000_000;
  const execTrueMs = await measureExec(cluster, guest, options.execs);
  const [webSocket, spdy] = newClients(cluster);
  if (!webSocket || !spdy) throw new Error("no kubectl");
  await startEcho(guest, webSocket, echoPort);
  await using forward = await startForward(guest, spdy, [echoPort]);
  await using tunnel = await startForward(guest, webSocket, [echoPort]);
  const exec = await openExecClient(findTarget(cluster, guest));
  const dial = runtime;
  const ways: Readonly<Record<string, () => Promise<number>>> = {
    stdout: async () => (await exec.run(["head", "-c", String(bytes), "/dev/zero"])).tookMs,
    ssh: () => bySsh(dial, { guest, keyFile, bytes }),
    forward: () => echoThrough(local(forward.ports[0]), bytes),
    tunnel: () => echoThrough(local(tunnel.ports[0]), bytes),
    tcp: async () =>
      echoThrough(await dial.dial(guest.vmName, echoPort, { signal: AbortSignal.timeout(60_000) }), bytes),
  };
  const rates = new Map<string, number[]>();
  for (let round = 0; round <= options.rounds; round += 1)
    for (const [name, run] of round % 2 === 0 ? Object.entries(ways) : Object.entries(ways).toReversed()) {
      const rate = bytes / 1_000 / (await run());
      if (round > 0) rates.set(name, [...(rates.get(name) ?? []), rate]);
    }
  const spread = (name: string) => computeSpread(rates.get(name) ?? []);
  return {
    execTrueMs,
    stdoutMBps: spread("stdout"),
    sshStdoutMBps: spread("ssh"),
    forwardMBps: spread("forward"),
    forwardWebSocketMBps: spread("tunnel"),
    tcpMBps: spread("tcp"),
  };
}

function findTarget(cluster: OwnControlPlane, guest: RealGuest) {
  return {
    server: cluster.server,
    kubeconfigPath: cluster.kubeconfigPath,
    namespace: guest.world.namespace.name,
    pod: guest.pod,
  };
}

async function measureExec(
  cluster: OwnControlPlane,
  guest: RealGuest,
  execs: number,
): Promise<GuestAccess["execTrueMs"]> {
  const client = await openExecClient(findTarget(cluster, guest));
  for (let warm = 0; warm < 5; warm += 1) await client.run(["true"]);
  const took: number[] = [];
  for (let index = 0; index < execs; index += 1) took.push((await client.run(["true"])).tookMs);
  return computePercentiles(took);
}

function local(port: number | undefined): Duplex {
  return connect({ port: port ?? 0, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
}

/** Milliseconds until everything that was sent came back. */
async function echoThrough(connection: Duplex, bytes: number): Promise<number> {
  const began = performance.now();
  let received = 0;
  connection.on("data", (piece: Buffer) => {
    received += piece.length;
  });
  const piece = Buffer.alloc(64 * 1024, "x");
  for (let left = bytes; left > 0; left -= piece.length)
    if (!connection.write(piece.subarray(0, Math.min(left, piece.length)))) await once(connection, "drain");
  connection.end();
  await once(connection, "end");
  const took = performance.now() - began;
  connection.destroy();
  if (received !== bytes) throw new Error(`sent ${bytes} bytes, ${received} came back`);
  return took;
}

interface SshRun {
  readonly guest: RealGuest;
  readonly keyFile: string;
  readonly bytes: number;
}

async function bySsh(runtime: VmRuntime, { guest, keyFile, bytes }: SshRun): Promise<number> {
  const address = await runtime.address(guest.vmName, { signal: AbortSignal.timeout(10_000) });
  const forward = address?.forwards.find((each) => each.guestPort === 22);
  if (!forward) throw new Error("the guest's SSH port is not forwarded");
  const began = performance.now();
  const options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"];
  const args = ["-i", keyFile, "-p", String(forward.hostPort), ...options.flatMap((each) => ["-o", each])];
  const child = spawn("ssh", [...args, `root@${forward.hostAddress}`, `head -c ${bytes} /dev/zero`]);
  let received = 0;
  child.stdout.on("data", (piece: Buffer) => {
    received += piece.length;
  });
  await once(child, "close");
  if (received !== bytes) throw new Error(`ssh gave ${received} of ${bytes} bytes`);
  return performance.now() - began;
}
