/** A Python package from PyPI, in an environment of its own that later runs find again. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { runCommand } from "./run-command.ts";

/** The interpreter that can import the package. */
export async function ensurePythonPackage(name: string, version: string): Promise<string> {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const directory = join(cache, "cocoon", `${name}-python-${version}`);
  const python = join(directory, "bin", "python");
  if (existsSync(join(directory, "complete"))) return python;
  const make = `python3 -m venv '${directory}' && '${python}' -m pip install -q '${name}==${version}' && touch '${directory}/complete'`;
  const made = await runCommand("sh", ["-c", make], { timeoutMs: 300_000 });
  assert.equal(made.code, 0, made.stderr);
  return python;
}
