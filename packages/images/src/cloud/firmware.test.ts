import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseFirmware } from "./firmware.ts";

function disk(options: { code?: boolean; types?: number[]; gptEntries?: string[] }): Buffer {
  const start = Buffer.alloc(34 * 512);
  if (options.code) start.fill(0x90, 0, 440);
  for (const [index, type] of (options.types ?? []).entries()) start[446 + index * 16 + 4] = type;
  for (const [index, guid] of (options.gptEntries ?? []).entries()) {
    const [a = "", b = "", c = "", ...rest] = guid.split("-");
    const little = [a, b, c].map((part) => Buffer.from(part, "hex").reverse());
    Buffer.concat([...little, Buffer.from(rest.join(""), "hex")]).copy(start, 1024 + index * 128);
  }
  start.set([0x55, 0xaa], 510);
  return start;
}

const linux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
const efiSystem = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
const biosBoot = "21686148-6449-6E6F-744E-656564454649";

for (const [name, start, firmware] of [
  ["an old table with boot code", disk({ code: true, types: [0x83] }), "bios"],
  ["an old table without code", disk({ types: [0x83] }), "uefi"],
  ["an old table with an EFI partition", disk({ code: true, types: [0xef] }), "uefi"],
  [
    "a new table for both",
    disk({ code: true, types: [0xee], gptEntries: [linux, biosBoot, efiSystem] }),
    "bios",
  ],
  [
    "a new table for UEFI alone, whatever the first sector holds",
    disk({ code: true, types: [0xee], gptEntries: [efiSystem, linux] }),
    "uefi",
  ],
] as const) {
  test(`${name} boots by ${firmware}`, () => assert.equal(chooseFirmware(start), firmware));
}
