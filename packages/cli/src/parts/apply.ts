/** Puts manifests into the cluster, as `kubectl apply` does. Repeatable. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { Fault, type Abortable } from "@cocoon/core";
import { parseAllDocuments, stringify } from "yaml";
import type { PartContext } from "./part.ts";

const run = promisify(execFile);
const timeoutMs = 60_000;

export interface Manifest {
  readonly kind: string;
  readonly [field: string]: unknown;
}

export async function readManifests(...files: readonly string[]): Promise<Manifest[]> {
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8")));
  return texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as Manifest));
}

type Access = Pick<PartContext, "kubectl" | "kubeconfig" | "directory">;

export async function applyManifests(
  access: Access,
  manifests: readonly Manifest[],
  options: Abortable,
): Promise<void> {
  const flags = ["apply", "--server-side", "--force-conflicts", "--field-manager=cocoonctl", "-f", "-"];
  await runKubectl(access, { flags, manifests }, options);
}

/** For what people change afterwards: made when it is missing, never touched again. */
export async function createMissing(
  access: Access,
  manifests: readonly Manifest[],
  options: Abortable,
): Promise<void> {
  for (const manifest of manifests) {
    const found = await runKubectl(
      access,
      { flags: ["get", "--ignore-not-found", "-o", "name", "-f", "-"], manifests: [manifest] },
      options,
    );
    if (found.trim() === "") await applyManifests(access, [manifest], options);
  }
}

interface KubectlRun {
  readonly flags: readonly string[];
  readonly manifests: readonly Manifest[];
}

async function runKubectl(
  { kubectl, kubeconfig, directory }: Access,
  { flags, manifests }: KubectlRun,
  { signal }: Abortable,
): Promise<string> {
  // Without a home it would keep its cache in the working directory.
  const env = { KUBECONFIG: kubeconfig, HOME: directory };
  const running = run(kubectl, flags, { signal, timeout: timeoutMs, env });
  running.child.stdin?.end(manifests.map((manifest) => stringify(manifest)).join("---\n"));
  try {
    return (await running).stdout;
  } catch (error) {
    signal.throwIfAborted();
    const said = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
    throw new Fault("unavailable", `cannot install what the parts need: ${said.slice(0, 1_000)}`, {
      cause: error,
    });
  }
}
