import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import type { QemuHost } from "../process/host.ts";
import { assertFits, readSnapshotDescription, type SnapshotDescription } from "./snapshot-description.ts";

const host: QemuHost = {
  binary: "/usr/bin/qemu-system-x86_64",
  version: "7.2.22",
  machineTypes: { pc: "pc-i440fx-7.2", q35: "pc-q35-7.2" },
  supportedTypes: ["pc-i440fx-7.2", "pc-q35-7.2"],
  accelerator: "tcg",
  whyNotKvm: "turned off",
  cpuModel: "max",
  cpuClass: "tcg-max-7.2",
};
const description: SnapshotDescription = {
  format: 1,
  hypervisor: "qemu",
  config: { cpus: 1, memoryBytes: 128 * 2 ** 20, storageBytes: 2 ** 28, os: "linux", labels: {} },
  machine: {
    type: "pc-i440fx-7.2",
    accelerator: "tcg",
    cpuModel: "max",
    cpuClass: "tcg-max-7.2",
    cpus: 1,
    memoryBytes: 128 * 2 ** 20,
    firmware: "bios",
    os: "linux",
    nicModel: "virtio-net-pci",
    display: false,
    generationId: "3f0e3b62-1a80-4a0e-9c39-6f2f0a0b9b10",
    uuid: "0c4b7d86-9d7f-4b44-8f5d-3a8c8a8a9a01",
    qemuVersion: "7.2.5",
  },
  disks: [],
  nics: [{ mac: "02:00:00:00:00:01" }],
  imageBlobIds: [],
  hasAgent: true,
  memory: "pages",
  stateDigest: `sha256:${"0".repeat(64)}`,
  files: {},
};

test("what is written is read again", () => {
  assert.deepEqual(readSnapshotDescription(JSON.stringify(description)), description);
  assertFits(description, host);
});

const refusals: readonly (readonly [string, object, RegExp])[] = [
  ["a newer format", { format: 3 }, /format 3, this version reads up to 2/],
  ["another engine", { hypervisor: "cloud-hypervisor" }, /not made by QEMU/],
];
for (const [what, change, message] of refusals)
  test(`a snapshot of ${what} is refused`, () => {
    assert.throws(
      () => readSnapshotDescription(JSON.stringify({ ...description, ...change })),
      (error) => isFault(error, "preconditionFailed") && message.test(error.message),
    );
  });

test("a malformed description is invalid, and names no file that leads elsewhere", () => {
  assert.throws(
    () => readSnapshotDescription("{"),
    (error) => isFault(error, "invalid"),
  );
  for (const file of ["../../etc/shadow", "a,readonly=off", "/etc/shadow", ""]) {
    const layers = [{ file, format: "raw" }];
    const disk = { name: "root", role: "cow", serial: "s", readOnly: false, virtualBytes: 1, layers };
    assert.throws(
      () => readSnapshotDescription(JSON.stringify({ ...description, disks: [disk] })),
      (error) => isFault(error, "invalid"),
      file,
    );
  }
});

const misfits: readonly (readonly [string, Partial<SnapshotDescription["machine"]>, RegExp])[] = [
  ["another accelerator", { accelerator: "kvm" }, /saved under kvm/],
  ["another CPU", { cpuClass: "kvm-0123" }, /CPU class kvm-0123/],
  ["an unknown machine type", { type: "pc-i440fx-9.9" }, /machine type pc-i440fx-9\.9/],
  ["a newer QEMU", { qemuVersion: "7.3.0" }, /QEMU 7\.3\.0, which is newer/],
];
for (const [what, change, message] of misfits)
  test(`a snapshot of ${what} does not fit, and says so`, () => {
    assert.throws(
      () => assertFits({ ...description, machine: { ...description.machine, ...change } }, host),
      (error) => isFault(error, "preconditionFailed") && message.test(error.message),
    );
  });
