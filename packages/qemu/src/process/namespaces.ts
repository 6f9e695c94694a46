/**
 * Namespaces of a machine's QEMU, where we are root (`native/jail.c`): its root file system has the machine's directory, the
 * system's programs and libraries, and a few devices. A machine on a bridge or on the CNI network, or without
 * interfaces, has no network either: its taps are opened before. The user network needs the host's: QEMU connects and listens there for its guest.
 */
import { basename, dirname } from "node:path";
import { Fault, getErrorMessage, type Abortable } from "@cocoon/core";
import { findTool } from "@cocoon/vm/host";
import type { QemuContext } from "../context.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { ensureNative } from "./native-program.ts";
import { runBriefly } from "./probe-guest.ts";

export interface Jail {
  /** Program and arguments in front of QEMU's own. */
  readonly command: readonly string[];
  /** Whether taps are given to QEMU as open descriptors. */
  readonly ownNetwork: boolean;
}

/** Descriptor of the first tap, as `native/jail.c` has it. */
const firstTap = 10;
const visible = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib64",
  "/etc",
  "/run/systemd/resolve",
  "/run/resolvconf",
];

/** Undefined where namespaces are not permitted, which is logged once. */
export async function findJail(
  context: QemuContext,
  {
    record,
    owner,
    files,
  }: {
    readonly record: VmRecord;
    readonly owner: { readonly uid: number; readonly gid: number };
    /** Other files that QEMU reads. */
    readonly files: readonly string[];
  },
  options: Abortable,
): Promise<Jail | undefined> {
  const program = await findProgram(context, options);
  if (program === undefined) return undefined;
  const ownNetwork = record.nics.every(({ nic }) => nic.backend !== "user");
  const readOnly = [...visible, dirname(dirname(context.host.binary)), ...files];
  const command = [
    program,
    ...listNetnsFlags(record),
    ...(ownNetwork ? ["-n"] : []),
    ...record.nics.flatMap(({ nic }) => (nic.tap === undefined ? [] : ["-t", nic.tap])),
    ...[...new Set(readOnly)].flatMap((path) => ["-r", path]),
    "-w",
    context.store.getDirectory(record.id),
    "-u",
    String(owner.uid),
    "-g",
    String(owner.gid),
    "--",
  ];
  return { command, ownNetwork };
}

/** Taps of the CNI network are in the machine's own namespace. */
function listNetnsFlags({ nics }: VmRecord): string[] {
  const path = findNetnsPath(nics);
  return path === undefined ? [] : ["-N", path];
}

function findNetnsPath(nics: VmRecord["nics"]): string | undefined {
  return nics.find(({ nic }) => nic.backend === "cni")?.nic.netnsPath;
}

/** In front of a QEMU that runs as we do, without a jail: it opens its taps itself, where they are. */
export async function findNamespaceCommand({ nics, name }: VmRecord, hasOwner: boolean): Promise<string[]> {
  const path = findNetnsPath(nics);
  if (path === undefined) return [];
  if (hasOwner)
    throw new Fault(
      "notSupported",
      `VM ${name} cannot be connected to the CNI network: QEMU's namespaces cannot be made here; install gcc, or set VK_VM_USERS=none`,
    );
  return [await findTool("ip"), "netns", "exec", basename(path)];
}

/** The netdev settings of each interface; taps of a QEMU without a network are open descriptors. */
export function listNetdevs({ nics }: VmRecord, jail: Jail | undefined): string[] {
  let next = firstTap;
  return nics.map(({ nic, netdev }) => {
    if (!jail?.ownNetwork || nic.tap === undefined) return netdev;
    next += 1;
    return `tap,fd=${next - 1}`;
  });
}

const programs = new Map<string, Promise<string | undefined>>();

/** Tried once per process and store: containers often may not make namespaces. */
function findProgram({ store, log }: QemuContext, options: Abortable): Promise<string | undefined> {
  const { shared } = store.layout;
  const known = programs.get(shared) ?? buildJail(shared, options);
  programs.set(shared, known);
  return known.catch((error: unknown) => {
    options.signal.throwIfAborted();
    programs.set(shared, Promise.resolve(undefined));
    log.warn({ error: getErrorMessage(error) }, "QEMU runs without namespaces of its own");
    return undefined;
  });
}

/** Builds the program and tries it; throws why it does not work here. */
export async function buildJail(shared: string, options: Abortable): Promise<string> {
  const program = await ensureNative("jail", shared, options);
  const args = ["-n", ...visible.flatMap((path) => ["-r", path]), "-w", shared, "-u", "65534", "-g", "65534"];
  const outcome = await runBriefly(program, [...args, "--", "/bin/true"], { ...options, deadlineMs: 10_000 });
  if (outcome.code === 0) return program;
  throw new Error(outcome.text.trim() || `the jail ended with ${outcome.code}`);
}
