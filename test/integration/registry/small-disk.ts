/** A file system that is soon full. */
import { temporaryDirectory, runCommand } from "@cocoon/testkit";

export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
}

/** Undefined where one may not mount. */
export async function trySmallDisk(megabytes: number): Promise<SmallDisk | undefined> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const mounted = await runCommand("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", path]);
  if (mounted.code !== 0) return undefined;
  stack.defer(async () => void (await runCommand("umount", ["-l", path])));
  const resources = stack.move();
  return { path, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}
