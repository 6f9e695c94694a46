/** What is missing on this host to keep machines from it and from each other, for `doctor`. */
import { constants } from "node:fs";
import { access, chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getErrorMessage, pathExists, silentLogger, type Abortable } from "@cocoon/core";
import { requireTools } from "@cocoon/vm/host";
import { chooseVmUsers } from "./jail.ts";
import { buildJail } from "./namespaces.ts";

/** One sentence each, with the fix; empty: everything is there. */
export async function findMissingIsolation(rootDirectory: string, options: Abortable): Promise<string[]> {
  const missing: string[] = [];
  const gcc = await requireTools(["gcc"], "the guard of the user network and the jail").then(
    () => true,
    (error: unknown) => void missing.push(getErrorMessage(error)),
  );
  if (process.getuid?.() !== 0)
    return [...missing, "not root: machines share this user and see this host's files"];
  if (!(await chooseVmUsers(rootDirectory, silentLogger)))
    missing.push(
      `machines run as root: their users cannot pass through to ${rootDirectory}; use chmod o+x above it`,
    );
  if (gcc)
    await tryJail(options).catch((error: unknown) =>
      missing.push(`no namespaces: ${getErrorMessage(error)}`),
    );
  if (!(await canMakeCgroups()))
    missing.push("cgroups cannot be made: machines have no limits beyond their own size");
  return missing;
}

async function tryJail(options: Abortable): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "cocoon-jail-"));
  try {
    await chmod(directory, 0o755);
    await buildJail(directory, options);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function canMakeCgroups(): Promise<boolean> {
  const root = (await pathExists("/sys/fs/cgroup/cgroup.controllers"))
    ? "/sys/fs/cgroup"
    : "/sys/fs/cgroup/cpu";
  return access(root, constants.W_OK).then(
    () => true,
    () => false,
  );
}
