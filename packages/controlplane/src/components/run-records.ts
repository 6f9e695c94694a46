/**
 * What runs, remembered in files, so that another process (the next `up`, `status`, `down`) knows it:
 *
 *   <dir>/run/<component>.json   identity of the process and a fingerprint of its command line
 *
 * Each component also carries COCOON_COMPONENT=<dir>/<component> in its environment. A process that was started
 * just before we were killed has no record yet; it is found by that mark.
 */
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  isAlive,
  processIdentitySchema,
  tryIdentify,
  tryReadJson,
  writeFileAtomically,
  type ProcessIdentity,
} from "@cocoon/core";
import * as z from "zod";
import type { Component } from "./component.ts";

const recordSchema = z.object({
  identity: processIdentitySchema,
  fingerprint: z.string(),
  startedAt: z.string(),
});
export type RunRecord = Readonly<z.infer<typeof recordSchema>>;

export const componentMark = "COCOON_COMPONENT";

export function createMark(directory: string, name: string): string {
  return join(directory, name);
}

export function computeFingerprint(component: Component): string {
  const text = JSON.stringify([
    component.command,
    component.args,
    component.env ?? {},
    component.secrets ?? {},
  ]);
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

function recordPath(directory: string, name: string): string {
  return join(directory, "run", `${name}.json`);
}

export async function writeRecord(
  directory: string,
  component: Component,
  identity: ProcessIdentity,
): Promise<void> {
  const record: RunRecord = {
    identity,
    fingerprint: computeFingerprint(component),
    startedAt: new Date().toISOString(),
  };
  await writeFileAtomically(recordPath(directory, component.name), `${JSON.stringify(record)}\n`, {
    mode: 0o600,
    sync: false,
  });
}

/** A damaged record is none: the mark in the environment still finds the process. */
export function readRecord(directory: string, name: string): Promise<RunRecord | undefined> {
  return tryReadJson(recordPath(directory, name), recordSchema);
}

export async function removeRecord(directory: string, name: string): Promise<void> {
  await rm(recordPath(directory, name), { force: true });
}

export async function recordedNames(directory: string): Promise<string[]> {
  const files = await readdir(join(directory, "run")).catch(() => []);
  return files.filter((file) => file.endsWith(".json")).map((file) => file.slice(0, -".json".length));
}

/** The living process of a component: by its record, else by its mark. */
export async function findRunning(directory: string, name: string): Promise<ProcessIdentity | undefined> {
  const record = await readRecord(directory, name);
  if (record && isAlive(record.identity)) return record.identity;
  return markedProcesses(directory).find((process) => process.name === name)?.identity;
}

/** All living processes that carry a mark of this directory. */
export function markedProcesses(
  directory: string,
): { readonly name: string; readonly identity: ProcessIdentity }[] {
  const prefix = `${componentMark}=${directory}/`;
  return readdirSync("/proc").flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    const mark = readMark(entry, prefix);
    const identity = mark === undefined ? undefined : tryIdentify(Number(entry));
    return mark !== undefined && identity ? [{ name: mark, identity }] : [];
  });
}

function readMark(pid: string, prefix: string): string | undefined {
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    const found = variables.find((variable) => variable.startsWith(prefix))?.slice(prefix.length);
    // Children inherit the mark with the environment; only the component itself is in its own session.
    return found !== undefined && isSessionLeader(pid) ? found : undefined;
  } catch {
    return undefined; // ended meanwhile, or of another user
  }
}

function isSessionLeader(pid: string): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[3] === pid;
}
