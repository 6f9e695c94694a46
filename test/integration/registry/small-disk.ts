/** A file system that is soon full. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { requireRoot, runCommand, temporaryDirectory } from "@cocoon/testkit";

export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
}

const mountScript =
  'mount -t tmpfs -o "size=$1m,mode=0700" tmpfs "$2" && echo mounted && exec cat >/dev/null';

/**
 * Mounted in a user and mount namespace of its own, which needs no privilege, and seen through the process that holds
 * it. The mount ends with that process, which ends with this one: it reads from a pipe of ours.
 */
export async function openSmallDisk(megabytes: number): Promise<SmallDisk> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const args = ["--user", "--map-root-user", "--mount", "sh", "-c", mountScript, "sh", `${megabytes}`, path];
  const holder = spawn("unshare", args, { stdio: ["pipe", "pipe", "pipe"] });
  const gone = once(holder, "close");
  stack.defer(async () => {
    holder.stdin.end();
    await gone;
  });
  let problem = "";
  holder.stderr.setEncoding("utf8").on("data", (text: string) => (problem += text));
  await Promise.race([once(holder.stdout, "data"), gone]);
  if (holder.exitCode !== null)
    throw new Error(
      `no small file system can be mounted: ${problem.trim()}. Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns=0) or run the tests as root`,
    );
  const resources = stack.move();
  return {
    path: `/proc/${holder.pid}/root${path}`,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Mounted for all processes, as SQLite needs it: it resolves the path of its file. Needs root. */
export async function mountSmallDisk(megabytes: number): Promise<SmallDisk> {
  requireRoot("mount a small file system");
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const words = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", path];
  const { code, stderr } = await runCommand("mount", words);
  if (code !== 0) throw new Error(`no small file system can be mounted: ${stderr.trim()}`);
  stack.defer(async () => void (await runCommand("umount", ["-l", path])));
  const resources = stack.move();
  return { path, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}
