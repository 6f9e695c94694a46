/** `clone-from-dir` lets a pod name a directory of the host, so only below roots that the host's owner allows. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, normalize, sep } from "node:path";
import { Fault, toFault } from "@cocoon/core";

export async function canonicalDirectory(directory: string, roots: readonly string[]): Promise<string> {
  const refuse = (why: string) => new Fault("invalid", `clone-from-dir "${directory.slice(0, 200)}": ${why}`);
  if (roots.length === 0) throw refuse("not allowed on this node; set VK_CLONE_FROM_DIR_ROOTS");
  if (!isAbsolute(directory) || normalize(directory) !== directory)
    throw refuse("must be an absolute path without . and ..");
  let real: string;
  try {
    real = await realpath(directory);
    if (!(await stat(real)).isDirectory()) throw refuse("is not a directory");
  } catch (error) {
    throw toFault(error, `clone-from-dir ${directory}`);
  }
  const allowed = await Promise.all(roots.map((root) => realpath(root).catch(() => undefined)));
  if (!allowed.some((root) => root !== undefined && real.startsWith(root + sep)))
    throw refuse(`is not below any of ${roots.join(", ")}`);
  return real;
}
