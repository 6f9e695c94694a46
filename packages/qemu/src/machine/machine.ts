/**
 * The machine that QEMU emulates: everything that must be the same again when a saved guest goes on. It is
 * kept in the VM's record and in each snapshot; the argument list is a pure function of it (`arguments.ts`).
 */
import * as z from "zod";

/** Words that go into QEMU's arguments are restricted to what cannot be taken for another option. */
export const machineSchema = z.object({
  /** Versioned machine type, e.g. "pc-i440fx-7.2": the alias "pc" would change with QEMU. */
  type: z.string().regex(/^[\w.-]+$/),
  accelerator: z.enum(["kvm", "tcg"]),
  cpuModel: z.string().regex(/^[\w.,=+-]+$/),
  /** What the CPU model stands for here; equal classes can exchange snapshots. */
  cpuClass: z.string(),
  cpus: z.int().positive(),
  memoryBytes: z.int().positive(),
  firmware: z.enum(["bios", "uefi"]),
  os: z.enum(["linux", "windows", "android", "macos"]),
  kernel: z.object({ commandLine: z.string(), initrd: z.boolean() }).exactOptional(),
  nicModel: z.enum(["virtio-net-pci", "e1000e"]),
  display: z.boolean(),
  /** Changes with every clone and restore; the guest that knows it renews its randomness. */
  generationId: z.guid(),
  uuid: z.guid(),
  /** Version of QEMU that started the guest, e.g. "7.2.22". */
  qemuVersion: z.string(),
});

export type Machine = Readonly<z.infer<typeof machineSchema>>;

/**
 * Whether the guest's memory can be saved page by page. A screen has memory of its own that only the full migration
 * stream carries.
 */
export function savesPageByPage(machine: Machine): boolean {
  return !machine.display;
}
