/**
 * QEMU's arguments: a pure function of the machine. Every path is relative to the VM's directory, which is QEMU's
 * working directory, and every PCI device has its slot written down, so that a guest which was saved finds its devices
 * where they were. No secret is ever an argument: all users can read them.
 */
import { agentPortCount, agentPortPrefix } from "../agent/agent-protocol.ts";
import { layerNumber, machineFile, vmFile } from "../store/layout.ts";
import type { DiskRecord } from "../store/vm-record.ts";
import type { Machine } from "../machine/machine.ts";

export interface ArgumentsInput {
  readonly id: string;
  /** Directory of the machine's files, relative to the VM's. */
  readonly files: string;
  readonly machine: Machine;
  readonly disks: readonly DiskRecord[];
  /** Names of files that QEMU reads through the mount. */
  readonly mounted?: readonly string[];
  readonly nics: readonly { readonly mac: string; readonly netdev: string; readonly queueSize: number }[];
  /** How the guest begins: at its firmware, or where a saved one was; a saved state names its machine or does not. */
  readonly start: "boot" | "named" | "nameless";
}

/** First PCI slots of each kind of device; slots 0 and 1 are the chipset's. */
const slot = {
  display: 0x02,
  serial: 0x03,
  random: 0x04,
  usb: 0x06,
  nic: 0x08,
  disk: 0x10,
} as const;
export const maxNics = slot.disk - slot.nic;
export const maxDisks = 0x1e - slot.disk;

/** A flag with its value, if it takes one. */
type Option = readonly [flag: string, value?: string];

export function qemuArguments(input: ArgumentsInput): string[] {
  return options(input).flatMap((option) => option.filter((word) => word !== undefined));
}

function options(input: ArgumentsInput): Option[] {
  const { machine } = input;
  return [
    ["-name", `guest=${input.id},debug-threads=on`],
    ["-uuid", machine.uuid],
    ...machineArguments(input),
    ["-nodefaults"],
    ["-no-user-config"],
    ["-msg", "timestamp=on"],
    ["-pidfile", vmFile.pid],
    ["-rtc", machine.os === "windows" ? "base=localtime,driftfix=slew" : "base=utc"],
    ...kernelArguments(input),
    ...channelArguments(machine),
    ...input.disks.flatMap((disk, index) => diskArguments(input, disk, index)),
    ...input.nics.flatMap((nic, index) => nicArguments(machine, nic, index)),
    ...displayArguments(machine),
    ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"],
    ["-S"],
    ...startArguments(input.start),
  ];
}

/** Where a file of the machine is, for QEMU. */
function formatPath({ files, mounted = [] }: ArgumentsInput, name: string): string {
  return `${mounted.includes(name) ? vmFile.lazy : files}/${name}`;
}

function machineArguments(input: ArgumentsInput): Option[] {
  const { machine, files } = input;
  const flash = machine.firmware === "uefi" ? "pflash0=fw,pflash1=vars" : "pflash0=fw";
  const settings = [
    machine.type,
    "memory-backend=ram",
    flash,
    "usb=off,dump-guest-core=off,mem-merge=off",
    // The description of the state is for people; leaving it out saves half of the device state.
    "suppress-vmdesc=on",
  ];
  return [
    ["-M", settings.join(",")],
    ["-accel", machine.accelerator],
    ["-cpu", cpuArgument(machine)],
    ["-smp", String(machine.cpus)],
    ["-m", `size=${machine.memoryBytes / mebibyte}M`],
    ["-object", memoryBackend(input)],
    ["-blockdev", `driver=file,filename=${files}/${machineFile.firmware},read-only=on,node-name=fw`],
    ...(machine.firmware === "uefi"
      ? [option("-blockdev", `driver=file,filename=${files}/${machineFile.firmwareVariables},node-name=vars`)]
      : []),
  ];
}

const mebibyte = 1024 * 1024;

/** Mapped privately: the guest's writes never reach the file, and equal guests share what they have not written. */
function memoryBackend(input: ArgumentsInput): string {
  const { machine } = input;
  const settings = [
    "memory-backend-file,id=ram",
    `size=${machine.memoryBytes / mebibyte}M`,
    `mem-path=${formatPath(input, machineFile.memory)}`,
    "share=off",
  ];
  // From 8.2 on a private mapping may stand on a file that QEMU cannot write even if it wanted to.
  if (atLeast(machine.qemuVersion, 8, 2)) settings.push("readonly=on,rom=off");
  return settings.join(",");
}

/** What makes Windows run at a bearable speed under KVM. Emulation knows none of it. */
const hyperV =
  "hv-relaxed,hv-vapic,hv-spinlocks=0x1fff,hv-vpindex,hv-runtime,hv-synic,hv-stimer,hv-time,hv-frequencies,hv-reset";

function cpuArgument(machine: Machine): string {
  const forWindows = machine.os === "windows" && machine.accelerator === "kvm";
  return forWindows ? `${machine.cpuModel},${hyperV}` : machine.cpuModel;
}

function kernelArguments({ machine, files }: ArgumentsInput): Option[] {
  if (!machine.kernel) return [];
  return [
    ["-kernel", `${files}/${machineFile.kernel}`],
    ...(machine.kernel.initrd ? [option("-initrd", `${files}/${machineFile.initrd}`)] : []),
    ["-append", machine.kernel.commandLine],
  ];
}

function socketChannel(id: string, path: string, more = ""): Option {
  return ["-chardev", `socket,id=${id},path=${path},server=on,wait=off${more}`];
}

function channelArguments(machine: Machine): Option[] {
  const agentPorts = Array.from({ length: agentPortCount }, (_each, port) => [
    socketChannel(`agent${port}`, vmFile.agentSocket(port)),
    option(
      "-device",
      `virtserialport,bus=serial.0,nr=${port + 1},chardev=agent${port},name=${agentPortPrefix}${port}`,
    ),
  ]).flat();
  return [
    socketChannel("qmp", vmFile.qmp),
    ["-mon", "chardev=qmp,mode=control"],
    socketChannel("events", vmFile.events),
    ["-mon", "chardev=events,mode=control"],
    socketChannel("console", vmFile.console, `,logfile=${vmFile.consoleLog},logappend=on`),
    ["-serial", "chardev:console"],
    ["-device", `virtio-serial-pci,id=serial,addr=${hex(slot.serial)}`],
    ...agentPorts,
    ["-object", "rng-random,id=random,filename=/dev/urandom"],
    ["-device", `virtio-rng-pci,rng=random,addr=${hex(slot.random)}`],
    ["-device", `vmgenid,guid=${machine.generationId}`],
  ];
}

/** `discard` must stand on both nodes, or trimmed space is never given back. */
// oxlint-disable-next-line max-params -- the disk and its place
function diskArguments(input: ArgumentsInput, disk: DiskRecord, index: number): Option[] {
  const layer = disk.layers.at(-1);
  if (!layer) return [];
  const below = lowerLayers(input, disk, index);
  const backing = below.length > 0 ? `,backing=${layerNode(index, disk.layers.at(-2)?.file ?? "")}` : "";
  const file = diskFileNode(index, disk);
  const node = diskNode(index, disk);
  const access = disk.readOnly ? "read-only=on" : "discard=unmap";
  const format = disk.readOnly ? access : `${access},detect-zeroes=unmap`;
  return [
    ...below,
    ["-blockdev", `driver=file,filename=${formatPath(input, layer.file)},node-name=${file},${access}`],
    ["-blockdev", `driver=${layer.format},file=${file},node-name=${node},${format}${backing}`],
    [
      "-device",
      `virtio-blk-pci,drive=${node},id=disk${index},serial=${disk.serial},addr=${hex(slot.disk + index)}`,
    ],
  ];
}

/**
 * Usually QEMU opens lower layers by the names in their headers. Those that are mounted are named one by one, so that each
 * can be exchanged for its local file while the guest runs.
 */
// oxlint-disable-next-line max-params -- the disk and its place
function lowerLayers(input: ArgumentsInput, disk: DiskRecord, index: number): Option[] {
  const { mounted = [] } = input;
  const lower = disk.layers.slice(0, -1);
  if (!lower.some(({ file }) => mounted.includes(file))) return [];
  return lower.flatMap(({ file, format }, at) => {
    const below = disk.layers[at - 1];
    const backing = below ? `,backing=${layerNode(index, below.file)}` : "";
    const path = formatPath(input, file);
    const node = layerNode(index, file);
    return [
      option("-blockdev", `driver=file,filename=${path},node-name=${fileNode(index, file)},read-only=on`),
      option(
        "-blockdev",
        `driver=${format},file=${fileNode(index, file)},node-name=${node},read-only=on${backing}`,
      ),
    ];
  });
}

export function layerNode(index: number, file: string): string {
  return `disk${index}-layer${layerNumber(file)}`;
}

export function fileNode(index: number, file: string): string {
  return `disk${index}-file${layerNumber(file)}`;
}

/** Name of the node that the guest writes; it changes when a save puts a new layer on top. */
export function diskNode(index: number, disk: DiskRecord): string {
  return layerNode(index, disk.layers.at(-1)?.file ?? "");
}

export function diskFileNode(index: number, disk: DiskRecord): string {
  return fileNode(index, disk.layers.at(-1)?.file ?? "");
}

// oxlint-disable-next-line max-params -- the interface and its place
function nicArguments(machine: Machine, nic: ArgumentsInput["nics"][number], index: number): Option[] {
  const virtio = machine.nicModel === "virtio-net-pci";
  const queue = virtio && nic.queueSize > 0 ? `,rx_queue_size=${nic.queueSize}` : "";
  const device = `${machine.nicModel},netdev=net${index},id=nic${index},mac=${nic.mac},romfile=,addr=${hex(slot.nic + index)}`;
  const [kind = "", ...settings] = nic.netdev.split(",");
  return [
    ["-netdev", [kind, `id=net${index}`, ...settings].join(",")],
    ["-device", `${device}${queue}`],
  ];
}

function displayArguments(machine: Machine): Option[] {
  if (!machine.display) return [["-display", "none"]];
  return [
    ["-vnc", `unix:${vmFile.display}`],
    ["-device", `VGA,addr=${hex(slot.display)}`],
    ["-device", `piix3-usb-uhci,id=usb,addr=${hex(slot.usb)}`],
    ["-device", "usb-tablet,bus=usb.0"],
  ];
}

/** QEMU requires the section that names the machine of a state, unless an option says that there is none. */
function startArguments(start: ArgumentsInput["start"]): Option[] {
  if (start === "boot") return [];
  const waiting: Option = ["-incoming", "defer"];
  return start === "named" ? [waiting] : [waiting, ["-global", "migration.send-configuration=off"]];
}

function option(flag: string, value: string): Option {
  return [flag, value];
}

function hex(value: number): string {
  return `0x${value.toString(16).padStart(2, "0")}`;
}

/** Whether a QEMU version such as "7.2.22" is at least that. */
export function atLeast(version: string, major: number, minor: number): boolean {
  const [ownMajor = 0, ownMinor = 0] = version.split(".").map(Number);
  return ownMajor > major || (ownMajor === major && ownMinor >= minor);
}
