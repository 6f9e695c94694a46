/**
 * Builds what is released:
 *
 *   node scripts/build.ts                          everything, below dist/
 *   node scripts/build.ts --only bundles           one of packages, bundles, executable, notices; may be repeated
 *   node scripts/build.ts --out DIRECTORY          bundles, executable and notices there instead of dist/release
 *   node scripts/build.ts --trees                  directories only, no archives of them
 *   node scripts/build.ts --pack DIRECTORY         only the npm packages, with their tarballs there
 */
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { buildPackages } from "./build/npm-packages.ts";
import { buildRelease, releaseKinds, type ReleaseKind } from "./build/release.ts";

const { values } = parseArgs({
  options: {
    pack: { type: "string" },
    only: { type: "string", multiple: true },
    out: { type: "string" },
    trees: { type: "boolean" },
  },
});
const known = ["packages", ...releaseKinds];
const stranger = values.only?.find((kind) => !known.includes(kind));
if (stranger !== undefined) {
  console.error(`--only takes one of ${known.join(", ")}, not "${stranger}"`);
  process.exit(2);
}
const wants = (kind: string) =>
  values.pack === undefined && (values.only === undefined || values.only.includes(kind));
if (values.pack !== undefined || wants("packages")) buildPackages(values.pack);
const kinds: ReleaseKind[] = releaseKinds.filter(wants);
await buildRelease(kinds, {
  directory: resolve(values.out ?? join(import.meta.dirname, "../dist/release")),
  archives: values.trees !== true,
});
