#!/usr/bin/env node
// The executable. Plain JavaScript on purpose: code is compiled, and types are taken out, once per version and kept in a
// directory of the user's own; a first file in TypeScript would bring the compiler into memory at every start.
import * as nodeModule from "node:module"; // by name, an older Node fails before the check below
import { homedir } from "node:os";
import { join } from "node:path";

if (Number(process.versions.node.split(".")[0]) < 26) {
  process.stderr.write(
    `cocoonctl needs Node 26 or newer; this is ${process.version}. In the source tree, npm run cocoonctl -- brings its own.\n`,
  );
  process.exit(1);
}
const { COCOON_CACHE, XDG_CACHE_HOME } = process.env; // oxlint-disable-line node/no-process-env -- before any setting is read
const cache = COCOON_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), ".cache"), "cocoon");
nodeModule.enableCompileCache(join(cache, "compiled"));
await import("../src/main.ts");
