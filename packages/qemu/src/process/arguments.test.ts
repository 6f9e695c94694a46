/** Golden argument lists: what QEMU is started with, word for word. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DiskRecord } from "../store/vm-record.ts";
import { qemuArguments, type ArgumentsInput } from "./arguments.ts";
import type { Machine } from "../machine/machine.ts";

const id = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const machine: Machine = {
  type: "pc-i440fx-7.2",
  accelerator: "tcg",
  cpuModel: "max",
  cpuClass: "tcg-max-7.2",
  cpus: 2,
  memoryBytes: 256 * 1024 * 1024,
  firmware: "bios",
  os: "linux",
  kernel: { commandLine: "console=ttyS0 quiet", initrd: true },
  nicModel: "virtio-net-pci",
  display: false,
  generationId: "3f0e3b62-1a80-4a0e-9c39-6f2f0a0b9b10",
  uuid: "0c4b7d86-9d7f-4b44-8f5d-3a8c8a8a9a01",
  qemuVersion: "7.2.22",
};
const disks: readonly DiskRecord[] = [
  {
    name: "root",
    role: "cow",
    serial: "cocoon-cow",
    readOnly: false,
    virtualBytes: 1024 * 1024 * 1024,
    layers: [
      { file: "root-0.raw", format: "raw" },
      { file: "root-1.qcow2", format: "qcow2" },
    ],
  },
  {
    name: "cidata",
    role: "cidata",
    serial: "cocoon-cidata",
    readOnly: true,
    virtualBytes: 0,
    layers: [{ file: "cidata.img", format: "raw" }],
  },
];
const nics = [
  { mac: "02:00:00:00:00:01", netdev: "user,restrict=on,hostfwd=tcp:127.88.0.5:2222-:22", queueSize: 512 },
];
const input: ArgumentsInput = { id, files: "files-1", machine, disks, nics, start: "boot" };

/** The list as lines of one option each, as a person would write them. */
function lines(changes: Partial<ArgumentsInput> = {}): string[] {
  return qemuArguments({ ...input, ...changes })
    .join(" ")
    .split(/ (?=-)/);
}

test("a Linux machine that boots from its kernel", () => {
  assert.deepEqual(lines(), [
    `-name guest=${id},debug-threads=on`,
    "-uuid 0c4b7d86-9d7f-4b44-8f5d-3a8c8a8a9a01",
    "-M pc-i440fx-7.2,memory-backend=ram,pflash0=fw,usb=off,dump-guest-core=off,mem-merge=off,suppress-vmdesc=on",
    "-accel tcg",
    "-cpu max",
    "-smp 2",
    "-m size=256M",
    "-object memory-backend-file,id=ram,size=256M,mem-path=files-1/memory-ranges,share=off",
    "-blockdev driver=file,filename=files-1/firmware.fd,read-only=on,node-name=fw",
    "-nodefaults",
    "-no-user-config",
    "-msg timestamp=on",
    "-pidfile qemu.pid",
    "-rtc base=utc",
    "-kernel files-1/kernel",
    "-initrd files-1/initrd",
    "-append console=ttyS0 quiet",
    "-chardev socket,id=qmp,path=qmp.sock,server=on,wait=off",
    "-mon chardev=qmp,mode=control",
    "-chardev socket,id=events,path=events.sock,server=on,wait=off",
    "-mon chardev=events,mode=control",
    "-chardev socket,id=console,path=console.sock,server=on,wait=off,logfile=console.log,logappend=on",
    "-serial chardev:console",
    "-device virtio-serial-pci,id=serial,addr=0x03",
    ...[0, 1, 2, 3].flatMap((port) => [
      `-chardev socket,id=agent${port},path=agent-${port}.sock,server=on,wait=off`,
      `-device virtserialport,bus=serial.0,nr=${port + 1},chardev=agent${port},name=org.cocoon.agent.${port}`,
    ]),
    "-object rng-random,id=random,filename=/dev/urandom",
    "-device virtio-rng-pci,rng=random,addr=0x04",
    "-device vmgenid,guid=3f0e3b62-1a80-4a0e-9c39-6f2f0a0b9b10",
    "-blockdev driver=file,filename=files-1/root-1.qcow2,node-name=disk0-file1,discard=unmap",
    "-blockdev driver=qcow2,file=disk0-file1,node-name=disk0-layer1,discard=unmap,detect-zeroes=unmap",
    "-device virtio-blk-pci,drive=disk0-layer1,id=disk0,serial=cocoon-cow,addr=0x10",
    "-blockdev driver=file,filename=files-1/cidata.img,node-name=disk1-file0,read-only=on",
    "-blockdev driver=raw,file=disk1-file0,node-name=disk1-layer0,read-only=on",
    "-device virtio-blk-pci,drive=disk1-layer0,id=disk1,serial=cocoon-cidata,addr=0x11",
    "-netdev user,id=net0,restrict=on,hostfwd=tcp:127.88.0.5:2222-:22",
    "-device virtio-net-pci,netdev=net0,id=nic0,mac=02:00:00:00:00:01,romfile=,addr=0x08,rx_queue_size=512",
    "-display none",
    "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    "-S",
  ]);
});

test("a machine that goes on is the same machine, waiting for its state", () => {
  const booting = lines();
  assert.deepEqual(lines({ start: "nameless" }), [
    ...booting,
    "-incoming defer",
    "-global migration.send-configuration=off",
  ]);
  assert.deepEqual(lines({ start: "named" }), [...booting, "-incoming defer"]);
});

test("a Windows machine has UEFI with variables of its own, an e1000e card and local time", () => {
  const { kernel: _kernel, ...rest } = machine;
  const windows: Machine = {
    ...rest,
    type: "pc-q35-7.2",
    firmware: "uefi",
    os: "windows",
    nicModel: "e1000e",
  };
  const list = lines({ machine: windows, disks: disks.slice(0, 1) });
  for (const expected of [
    "-M pc-q35-7.2,memory-backend=ram,pflash0=fw,pflash1=vars,usb=off,dump-guest-core=off,mem-merge=off,suppress-vmdesc=on",
    "-blockdev driver=file,filename=files-1/variables.fd,node-name=vars",
    "-rtc base=localtime,driftfix=slew",
    "-device e1000e,netdev=net0,id=nic0,mac=02:00:00:00:00:01,romfile=,addr=0x08",
    "-cpu max",
  ])
    assert.ok(list.includes(expected), expected);
  assert.ok(!list.some((line) => line.includes("cidata") || line.startsWith("-kernel")));
});

test("Windows under KVM is told about Hyper-V", () => {
  const list = lines({
    machine: { ...machine, os: "windows", accelerator: "kvm", cpuModel: "host,migratable=on" },
  });
  assert.ok(
    list.includes(
      "-cpu host,migratable=on,hv-relaxed,hv-vapic,hv-spinlocks=0x1fff,hv-vpindex,hv-runtime,hv-synic,hv-stimer,hv-time,hv-frequencies,hv-reset",
    ),
  );
});

test("a screen is on a private socket", () => {
  const list = lines({ machine: { ...machine, display: true } });
  assert.ok(list.includes("-vnc unix:vnc.sock") && list.includes("-device VGA,addr=0x02"));
  assert.ok(!list.includes("-display none"));
});

test("a QEMU that can is not even able to write the memory file", () => {
  const list = lines({ machine: { ...machine, qemuVersion: "10.0.2" } });
  assert.ok(list.some((line) => line.endsWith("share=off,readonly=on,rom=off")));
});
