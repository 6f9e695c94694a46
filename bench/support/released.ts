/** Programs as they are released: one file each, with nothing to compile from TypeScript when they start. */
import { join } from "node:path";
import { bundle } from "../../scripts/build/bundle.ts";
import { buildRelease } from "../../scripts/build/release.ts";

const root = join(import.meta.dirname, "../..");
const directory = join(root, "node_modules/.cache/bench/programs");

/** The bundle of the program that begins in that file of the repository; made anew each time, which takes a second. */
export async function released(name: string, file: string): Promise<string> {
  const info = { version: "bench", revision: "", builtAt: "" };
  await bundle({ [name]: join(root, file) }, { info, flavour: "bundles", directory });
  return join(directory, `${name}.mjs`);
}

/** cocoonctl with the parts beside it, below a directory that is empty. */
export async function releasedCocoonctl(empty: string): Promise<string> {
  const [tree = ""] = await buildRelease(["bundles"], { directory: empty, archives: false });
  return join(tree, "lib/cocoon/start/cocoonctl.mjs");
}
