/**
 * Tells an empty store from one that is not there. `store.json` in the store holds its id; where the store lies on a file
 * system of its own, a second marker beside the mount point records that a store belongs there. A directory without its marker
 * is a disk that is not mounted or was emptied: nothing can be said about its VMs, and nothing may be made there.
 *
 *   /data/cocoon/qemu/store.json        {"version":1,"id":…}
 *   /.data.cocoon-store                 {"/data/cocoon/qemu":id}     /data is a mount point
 */
import { randomUUID } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Fault, systemCode, tryParseJson, tryReadFile, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";

const markerSchema = z.object({ version: z.literal(1), id: z.uuid() });
const outsideSchema = z.record(z.string(), z.uuid());

const markerFile = "store.json";

/** The id of the store in that directory, made when the store is new. `unavailable` when a store should be here and is not. */
export async function openMarker(root: string, vms: string): Promise<string> {
  const known = await tryReadMarker(root);
  const outside = await findOutside(root);
  const expected = outside && (await readOutside(outside))[root];
  if (known === undefined && expected !== undefined && (await readdir(vms)).length === 0)
    throw new Fault(
      "unavailable",
      `the VM store ${root} is missing (expected id ${expected}): mount its file system; if the VMs were removed on purpose, remove ${outside}`,
    );
  if (known !== undefined && known === expected) return known;
  const id = known ?? expected ?? randomUUID();
  if (known === undefined) await writeJson(join(root, markerFile), { version: 1, id });
  if (outside !== undefined) await remember(outside, root, id);
  return id;
}

/** `unavailable` unless the store with that id is (still) there. */
export async function assertMarker(root: string, id: string): Promise<void> {
  const found = await tryReadMarker(root);
  if (found === id) return;
  throw new Fault(
    "unavailable",
    `the VM store ${root} is ${found === undefined ? "not there" : "another one"}: check that its file system is mounted`,
  );
}

async function tryReadMarker(root: string): Promise<string | undefined> {
  const text = await tryReadFile(join(root, markerFile)).catch((error: unknown) => {
    if (systemCode(error) === "ENOTDIR") return undefined;
    throw new Fault("unavailable", `the VM store ${root} cannot be read`, { cause: error });
  });
  if (text === undefined) return undefined;
  const parsed = markerSchema.safeParse(tryParseJson(text));
  if (!parsed.success) throw new Fault("unavailable", `${join(root, markerFile)} is damaged`);
  return parsed.data.id;
}

/** The file beside the mount point of the store's file system; undefined when that is the root file system. */
async function findOutside(root: string): Promise<string | undefined> {
  for (let directory = resolve(root); ; directory = dirname(directory)) {
    const parent = dirname(directory);
    const recorded = join(parent, `.${basename(directory)}.cocoon-store`);
    if ((await tryReadFile(recorded).catch(() => undefined)) !== undefined) return recorded;
    if (parent === directory) return undefined;
    if ((await stat(directory)).dev !== (await stat(parent)).dev) return recorded;
  }
}

async function readOutside(path: string): Promise<Readonly<Record<string, string>>> {
  const text = await tryReadFile(path);
  const parsed = outsideSchema.safeParse(text === undefined ? {} : tryParseJson(text));
  if (!parsed.success) throw new Fault("unavailable", `${path} is damaged: correct or remove it`);
  return parsed.data;
}

/** Where we may not write beside the mount point, only a store that vanishes while it is open is noticed. */
async function remember(outside: string, root: string, id: string): Promise<void> {
  try {
    await writeJson(outside, { ...(await readOutside(outside)), [root]: id });
  } catch (error) {
    if (!["EACCES", "EPERM", "EROFS"].includes(systemCode(error) ?? "")) throw error;
  }
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await writeFileAtomically(path, `${JSON.stringify(value)}\n`, { mode: 0o600 });
}
