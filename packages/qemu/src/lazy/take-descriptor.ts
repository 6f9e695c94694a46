/**
 * Takes a copy of a descriptor out of a running process. QEMU inherits the descriptor that its files are served through and
 * never uses it; so the connection outlives any server, and the next server gets it from there.
 */
import { closeSync } from "node:fs";
import { Fault } from "@cocoon/core";

/** System calls without a wrapper in Node: `pidfd_open` and `pidfd_getfd`, the same on all architectures. */
const systemCall = { pidfdOpen: 434, pidfdGetfd: 438 } as const;

/** The caller closes it. */
export async function takeDescriptor(pid: number, number: number): Promise<number> {
  const { dlopen } = await import("node:ffi");
  using library = dlopen("libc.so.6", {
    syscall: { arguments: ["i64", "i64", "i64", "i64"], return: "i64" },
  } as const);
  const { syscall } = library.functions;
  const call = (number: number, first: number, second: number) =>
    Number(syscall(BigInt(number), BigInt(first), BigInt(second), 0n));
  const process = call(systemCall.pidfdOpen, pid, 0);
  if (process < 0) throw new Fault("unavailable", `process ${pid} cannot be opened`);
  try {
    const taken = call(systemCall.pidfdGetfd, process, number);
    if (taken < 0) throw new Fault("unavailable", `descriptor ${number} of process ${pid} cannot be taken`);
    return taken;
  } finally {
    closeSync(process);
  }
}
