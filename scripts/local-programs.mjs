// In a checkout, too, cocoonctl and the parts run as they are released: one file each, made of the sources in a few
// seconds. A part then needs 6 to 26 MB less than one that runs from sources (docs/performance.md).
import { createHash } from "node:crypto";
import { existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

/** What the programs are made of. */
const sources = ["packages", "scripts/build", "deploy", "packaging", "package.json", "package-lock.json"];

/** Running parts may still read from the ones before. */
const kept = 3;

/** Changes with any file of the sources: its name, size or time. */
function fingerprint(root) {
  const hash = createHash("sha256");
  const add = (path) => {
    const { size, mtimeMs } = statSync(join(root, path));
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  };
  const walk = (path) => {
    if (!statSync(join(root, path)).isDirectory()) return add(path);
    const names = readdirSync(join(root, path)).filter((name) => name !== "node_modules");
    for (const name of names) if (!name.endsWith(".test.ts")) walk(join(path, name));
  };
  for (const path of sources) walk(path);
  return hash.digest("hex").slice(0, 16);
}

function removeOlder(directory) {
  const age = (name) => statSync(join(directory, name)).mtimeMs;
  const names = readdirSync(directory).sort((left, right) => age(right) - age(left));
  for (const name of names.slice(kept)) rmSync(join(directory, name), { recursive: true, force: true });
}

/** Where cocoonctl begins. `build` makes the programs below a directory; it is called when a source has changed. */
export async function localCocoonctl(root, build) {
  const directory = join(root, "node_modules", ".cache", "programs");
  const current = join(directory, fingerprint(root));
  if (!existsSync(current)) {
    const draft = `${current}.${process.pid}`;
    await build(draft);
    try {
      renameSync(draft, current);
    } catch (error) {
      if (!existsSync(current)) throw error; // another process was quicker
      rmSync(draft, { recursive: true, force: true });
    }
    removeOlder(directory);
  }
  const [tree = ""] = readdirSync(current).filter((name) => name.startsWith("cocoon-"));
  return join(current, tree, "lib", "cocoon", "start", "cocoonctl.mjs");
}
