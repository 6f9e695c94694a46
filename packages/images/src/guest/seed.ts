/**
 * The seed: a small read-only disk with a guest's identity for its first boot. It is for cloud-init (the NoCloud
 * files) or to our own init (`cocoon.cfg`), whichever the image runs.
 */
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { Fault } from "@cocoon/core";
import type { GuestNic, SeedFacts } from "@cocoon/vm";
import type { ContainerProgram } from "../image-record.ts";
import { hashPassword } from "./password-hash.ts";
import { cloudInitFiles } from "./cloud-init.ts";
import { writeFatDisk } from "./fat-disk.ts";

export type SeedReader =
  /** Our init reads it: demo and container images. */
  | { readonly kind: "cocoon"; readonly program: ContainerProgram }
  /** cloud-init reads it, and installs the agent that is on the disk too. */
  | { readonly kind: "cloudInit"; readonly agentProgram: Uint8Array };

const seedLabel = "CIDATA";
/** Read by the boot program in guest/src. */
const seedFileName = "cocoon.cfg";

/** Mode 0600: it may hold a password. */
export async function writeSeedDisk(path: string, facts: SeedFacts, reader: SeedReader): Promise<void> {
  const files =
    reader.kind === "cocoon"
      ? { [seedFileName]: machineSettings(facts, reader.program) }
      : cloudInitFiles(facts, reader.agentProgram);
  await writeFile(path, writeFatDisk({ label: seedLabel, files }), { mode: 0o600, flag: "wx" });
}

/** Stays the same for an instance, tells instances apart, and gives away nothing about its id. */
export function computeMachineId(instanceId: string): string {
  return createHash("sha256").update(`machine-id\0${instanceId}`).digest("hex").slice(0, 32);
}

/** As the agent and our init read it: "MAC ADDRESS/PREFIX|dhcp GATEWAY|- DNS,DNS|- [DOMAIN,DOMAIN|- MTU|-]". */
export function nicLine({ mac, address, dns, searches = [], mtu }: GuestNic): string {
  if (!address) return `${mac} dhcp - -`;
  const more = searches.length > 0 || mtu !== undefined ? [searches.join(",") || "-", mtu ?? "-"] : [];
  const words = [
    mac,
    `${address.ip}/${address.prefix}`,
    address.gateway ?? "-",
    dns.join(",") || "-",
    ...more,
  ];
  return words.join(" ");
}

/** Programs that want to be process 1, and that systemd and its kin start under. */
const initPrograms = /^(?:.*\/)?(?:init|systemd)$/;

/** Records "key=value", each ended by a zero byte. */
export function machineSettings(facts: SeedFacts, program: ContainerProgram): Buffer {
  const records: [string, string][] = [
    ["instance-id", facts.instanceId],
    ["machine-id", computeMachineId(facts.instanceId)],
    ["hostname", facts.hostname],
    ...facts.nics.map((nic): [string, string] => ["nic", nicLine(nic)]),
    ...(facts.login.sshKeys ?? []).map((key): [string, string] => ["ssh-key", key.trim()]),
    ...(facts.login.password === undefined
      ? []
      : [["password-hash", hashPassword(facts.login.password)] satisfies [string, string]]),
    ...program.argv.map((word): [string, string] => ["arg", word]),
    ...program.env.map((line): [string, string] => ["env", line]),
    ...Object.entries(facts.login.env ?? {}).map(([key, value]): [string, string] => [
      "env",
      `${key}=${value}`,
    ]),
    ["user", program.user],
    ["cwd", program.workingDirectory],
    ...(initPrograms.test(program.argv[0] ?? "") ? [["init", "1"] satisfies [string, string]] : []),
    ...facts.dataDisks.flatMap(({ serial, fsType, mountPoint }): [string, string][] =>
      fsType === "ext4" && mountPoint ? [["mount", `${serial} ${mountPoint}`]] : [],
    ),
  ];
  const broken = records.find(([, value]) => value.includes("\0"));
  if (broken) throw new Fault("invalid", `the guest's ${broken[0]} holds a zero byte`);
  return Buffer.from(records.map(([key, value]) => `${key}=${value}\0`).join(""));
}
