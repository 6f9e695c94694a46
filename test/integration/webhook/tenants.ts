/** Users of one namespace each, impersonated: a tenant may edit everything in its namespace and nothing elsewhere. */
import assert from "node:assert/strict";
import type { CommandResult, TestCluster } from "@cocoon/testkit";

export interface Tenant {
  readonly namespace: string;
  readonly user: string;
  /** Runs kubectl as this user, in its namespace. */
  run(args: readonly string[], input?: object): Promise<CommandResult>;
}

const ourResources = "cocoonsets.cocoonset.cocoonstack.io,cocoonsnapshotgrants.cocoonset.cocoonstack.io";
const words = (text: string) => text.split(" ");

/** `role`: `edit`, or `cluster-admin` for a user that owns the namespace whole. */
export async function addTenant(
  cluster: TestCluster,
  namespace: string,
  role: "edit" | "cluster-admin" = "edit",
): Promise<Tenant> {
  const user = `${role}-of-${namespace}`;
  await createNamespace(cluster, namespace);
  await succeed(
    cluster.kubectl(words(`create rolebinding ${user} -n ${namespace} --clusterrole=${role} --user=${user}`)),
  );
  // The built-in role edit knows no custom resources.
  await succeed(
    cluster.kubectl(words(`create role ${user}-sets -n ${namespace} --verb=* --resource=${ourResources}`)),
  );
  await succeed(
    cluster.kubectl(
      words(`create rolebinding ${user}-sets -n ${namespace} --role=${user}-sets --user=${user}`),
    ),
  );
  return { namespace, user, run: (args, input) => runAs(cluster, { user, namespace }, args, input) };
}

async function createNamespace(cluster: TestCluster, namespace: string): Promise<void> {
  const made = await cluster.kubectl(["create", "namespace", namespace]);
  assert.ok(made.code === 0 || made.stderr.includes("AlreadyExists"), made.stderr);
}

export interface Identity {
  readonly user: string;
  readonly groups?: readonly string[];
  readonly namespace: string;
}

export function runAs(
  cluster: TestCluster,
  { user, groups = [], namespace }: Identity,
  ...[args, input]: [readonly string[], object?]
): Promise<CommandResult> {
  const flags = [`--as=${user}`, ...groups.map((group) => `--as-group=${group}`), "-n", namespace];
  return cluster.kubectl([...flags, ...args], input ? { input: JSON.stringify(input) } : {});
}

export async function succeed(command: Promise<CommandResult>): Promise<string> {
  const { code, stdout, stderr } = await command;
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The command fails, and says why. */
export async function refused(command: Promise<CommandResult>, why: RegExp): Promise<void> {
  const { code, stderr, stdout } = await command;
  assert.notEqual(code, 0, `was allowed: ${stdout}`);
  assert.match(stderr, why);
}
