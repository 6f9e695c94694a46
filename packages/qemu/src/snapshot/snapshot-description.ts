/**
 * The description of a snapshot (`config.json`), and whether it can be restored here. A device state carries no check
 * of its own, so everything that must be equal is compared before it is used.
 */
import { Fault, tryParseJson } from "@cocoon/core";
import * as z from "zod";
import { configSchema, diskSchema } from "../store/vm-record.ts";
import { atLeast } from "../process/arguments.ts";
import type { QemuHost } from "../process/host.ts";
import { machineSchema } from "../machine/machine.ts";

/** Raised when an older reader would misunderstand what is written: 2 has no memory. */
export const snapshotFormat = 2;
export const oldestFormat = 1;

const snapshotDescriptionSchema = z.object({
  format: z.literal([oldestFormat, snapshotFormat]),
  hypervisor: z.literal("qemu"),
  config: configSchema,
  machine: machineSchema,
  disks: z.array(diskSchema),
  /** MACs of the interfaces as the guest knows them. */
  nics: z.array(z.object({ mac: z.string() })),
  imageBlobIds: z.array(z.string()),
  hasAgent: z.boolean(),
  /** `pages`: memory file and device state. `stream`: one migration stream with both. `none`: disks alone; it boots. */
  memory: z.enum(["pages", "stream", "none"]),
  /** Of the device state or the stream; empty without memory. */
  stateDigest: z.string(),
  /** Every file beside this one, with its size: a snapshot that lacks one is not used. */
  files: z.record(z.string(), z.int().nonnegative()),
});

export type SnapshotDescription = Readonly<z.infer<typeof snapshotDescriptionSchema>>;

/** `preconditionFailed` when it was written by a newer version or another engine, `invalid` when it makes no sense. */
export function readSnapshotDescription(text: string): SnapshotDescription {
  const value = tryParseJson(text);
  if (value === undefined) throw new Fault("invalid", "the snapshot's config.json is not JSON");
  const head = z.object({ format: z.int().optional(), hypervisor: z.string().optional() }).safeParse(value);
  if (!head.success || head.data.hypervisor !== "qemu")
    throw new Fault(
      "preconditionFailed",
      "the snapshot was not made by QEMU; it cannot go on in this runtime",
    );
  if ((head.data.format ?? 0) > snapshotFormat)
    throw new Fault(
      "preconditionFailed",
      `the snapshot has format ${head.data.format}, this version reads up to ${snapshotFormat}: use a newer one`,
    );
  const parsed = snapshotDescriptionSchema.safeParse(value);
  if (!parsed.success)
    throw new Fault("invalid", "the snapshot's config.json is malformed", { cause: parsed.error });
  return parsed.data;
}

/** `preconditionFailed`, naming what differs, when a guest saved like this cannot go on here. */
export function assertFits(description: SnapshotDescription, host: QemuHost): void {
  const { machine } = description;
  if (description.memory === "none") return; // it boots, with what this host has
  const refuse = (what: string): never => {
    throw new Fault("preconditionFailed", `the snapshot does not fit this host: ${what}`);
  };
  if (machine.accelerator !== host.accelerator)
    refuse(`it was saved under ${machine.accelerator}, this host runs ${host.accelerator}`);
  if (machine.cpuClass !== host.cpuClass)
    refuse(`it was saved on CPU class ${machine.cpuClass}, this host has ${host.cpuClass}`);
  if (!host.supportedTypes.includes(machine.type))
    refuse(`this QEMU (${host.version}) does not know machine type ${machine.type}`);
  const [major = 0, minor = 0] = machine.qemuVersion.split(".").map(Number);
  if (!atLeast(host.version, major, minor))
    refuse(`it was saved by QEMU ${machine.qemuVersion}, which is newer than ${host.version} here`);
}
