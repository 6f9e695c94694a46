/** The executables of a release, and where each begins. */
export const programs: Readonly<Record<string, string>> = {
  cocoonctl: "packages/cli/src/main.ts",
  "kubectl-cocoon": "packages/cli/src/main.ts",
  "cocoon-operator": "packages/operator/src/main.ts",
  "cocoon-webhook": "packages/webhook/src/main.ts",
  "cocoon-colocation": "packages/colocation/src/main.ts",
  "cocoon-gateway": "packages/gateway/src/main.ts",
  "cocoon-dashboard": "packages/dashboard/src/main.ts",
  "vk-cocoon": "packages/vk/src/main.ts",
  epoch: "packages/registry/src/main.ts",
  cocoon: "packages/cocoon/src/main.ts",
  "cocoon-qemu": "packages/cocoon/src/main.ts",
  "cocoon-page-server": "packages/qemu/src/lazy/page-server.ts",
};

/**
 * Not linked into bin/, but into lib/cocoon/bin/: a host may have the Go program of that name in /usr/local/bin, and its
 * machines belong to that one. Ours is `cocoon-qemu` unless an administrator links it.
 */
export const notInPath: ReadonlySet<string> = new Set(["cocoon", "cocoon-page-server"]);

/** The name of the bundle of a program: programs that begin at the same place share it. */
export function findBundle(program: string): string {
  const path = programs[program];
  return Object.keys(programs).find((name) => programs[name] === path) ?? program;
}

/** All of them in one executable, which is called by any of these names. */
export const suiteName = "cocoon-suite";

/**
 * Files that programs read at run time, beside the bundles in lib/cocoon: sources of the guest's agent, the Go modules
 * of the control plane, and the manifests that `cocoonctl up` applies.
 */
export const companions: Readonly<Record<string, string>> = {
  guest: "packages/images/guest/src",
  native: "packages/qemu/native",
  go: "packages/controlplane/go",
  deploy: "deploy",
};
