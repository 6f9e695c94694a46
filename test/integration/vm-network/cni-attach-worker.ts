/** Attaches and releases VMs that exist only on the network, on the host that this runs in; says what came of it. */
import { execFileSync } from "node:child_process";
import { openCniNetwork } from "@cocoon/qemu";

interface Job {
  readonly directory: string;
  readonly confDirectory: string;
  readonly binDirectories?: readonly string[];
  readonly timeoutMs?: number;
  readonly attach?: readonly string[];
  readonly release?: readonly string[];
  /** VMs that exist: everything else is released. */
  readonly reconcile?: readonly string[];
  /** Attach and release these again and again, until killed. */
  readonly churn?: readonly string[];
  /** A command to run between attaching and releasing. */
  readonly between?: readonly [string, ...string[]];
}

const job = JSON.parse(process.argv[2] ?? "{}") as Job;
const { signal } = new AbortController();
const network = await openCniNetwork(job);
const failures: Record<string, string> = {};
const addresses: Record<string, string | undefined> = {};

async function attach(vmId: string): Promise<void> {
  await network.prepare({ vmId, vmName: vmId.toLowerCase(), cpus: 1, spec: {} }, { signal });
  addresses[vmId] = (await network.address(vmId, { signal }))?.ip;
}

async function note(vmId: string, work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    failures[vmId] = String(error);
  });
}

if (job.reconcile) await network.reconcile(async () => new Set(job.reconcile), { signal });
const began = performance.now();
for (const vmId of job.attach ?? []) await note(vmId, attach(vmId));
const tookMs = performance.now() - began;
if (job.between) execFileSync(job.between[0], job.between.slice(1));
for (const vmId of job.release ?? []) await note(vmId, network.release(vmId, { signal }));
if (job.churn) {
  console.log("begun");
  await Promise.all(
    job.churn.map(async (vmId) => {
      for (;;) {
        await attach(vmId);
        await network.release(vmId, { signal });
      }
    }),
  );
}
console.log(JSON.stringify({ failures, addresses, tookMs }));
