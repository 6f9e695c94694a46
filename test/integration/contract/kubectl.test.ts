/** What people see of the custom resources through kubectl. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { apiVersion, subAgentSelector } from "@cocoon/contract";
import { eventually, sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { installCrds } from "./install-crds.ts";

let cluster: TestCluster;

before(async () => {
  cluster = await sharedControlPlane();
  await installCrds(cluster);
});

const plural = "cocoonsets.cocoonset.cocoonstack.io";

async function kubectl(...args: readonly string[]): Promise<string> {
  const result = await cluster.kubectl(args);
  assert.equal(result.code, 0, `kubectl ${args.join(" ")}: ${result.stderr}`);
  return result.stdout;
}

async function apply(object: unknown): Promise<void> {
  const result = await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(object) });
  assert.equal(result.code, 0, result.stderr);
}

test("a set can be read, scaled and listed under all its names", async () => {
  await using namespace = await cluster.newNamespace();
  const inside = ["--namespace", namespace.name];
  const metadata = { name: "atlas", namespace: namespace.name };
  await apply({
    apiVersion,
    kind: "CocoonSet",
    metadata,
    spec: { agent: { image: "team/base", replicas: 1 } },
  });
  const status = {
    phase: "Running",
    readyAgents: 2,
    desiredAgents: 2,
    readyToolboxes: 0,
    desiredToolboxes: 0,
    subAgents: 1,
    selector: subAgentSelector("atlas"),
    agents: [{ slot: 0, role: "main", nodeName: "n1" }],
  };
  await kubectl(
    "patch",
    plural,
    "atlas",
    ...inside,
    "--subresource=status",
    "--type=merge",
    "-p",
    JSON.stringify({ status }),
  );

  const columns = (text: string) =>
    text
      .trim()
      .split("\n")
      .map((line) => line.split(/\s+/));
  const [head, row] = columns(await kubectl("get", plural, ...inside));
  assert.deepEqual(head, ["NAME", "PHASE", "READY", "DESIRED", "AGE"]);
  assert.deepEqual(row?.slice(0, 4), ["atlas", "Running", "2", "2"]);
  const [wide] = columns(await kubectl("get", plural, ...inside, "-o", "wide"));
  assert.deepEqual(wide?.slice(0, 5), head, "more columns come after the promised ones");

  for (const name of ["cset", "cocoonset", "cocoonsets", "cocoon"])
    assert.match(await kubectl("get", name, ...inside, "-o", "name"), /cocoonset\S*\/atlas/, name);

  await kubectl("scale", `${plural}/atlas`, ...inside, "--replicas=3", "--current-replicas=1");
  assert.equal(
    await kubectl("get", plural, "atlas", ...inside, "-o", "jsonpath={.spec.agent.replicas}"),
    "3",
  );
  const scale = JSON.parse(
    await kubectl("get", "--raw", `/apis/${apiVersion}/namespaces/${namespace.name}/cocoonsets/atlas/scale`),
  ) as { spec: unknown; status: unknown };
  assert.deepEqual(scale.spec, { replicas: 3 });
  assert.deepEqual(scale.status, {
    replicas: 1,
    selector: "cocoonset.cocoonstack.io/name=atlas,cocoonset.cocoonstack.io/role=sub-agent",
  });

  const refused = await cluster.kubectl([
    "patch",
    plural,
    "atlas",
    ...inside,
    "--type=merge",
    "-p",
    '{"spec":{"hibernatePolicy":"release"}}',
  ]);
  assert.match(refused.stderr, /hibernatePolicy=release requires agent\.replicas=0 and no toolboxes/);
});

test("a hibernation shows what it wants and where it stands", async () => {
  await using namespace = await cluster.newNamespace();
  const inside = ["--namespace", namespace.name];
  const metadata = { name: "atlas-2", namespace: namespace.name };
  await apply({
    apiVersion,
    kind: "CocoonHibernation",
    metadata,
    spec: { podRef: { name: "atlas-2" }, desire: "Hibernate" },
  });
  await kubectl(
    "patch",
    "ch",
    "atlas-2",
    ...inside,
    "--subresource=status",
    "--type=merge",
    "-p",
    '{"status":{"phase":"Hibernating"}}',
  );
  const lines = (await kubectl("get", "ch", ...inside))
    .trim()
    .split("\n")
    .map((line) => line.split(/\s+/));
  assert.deepEqual(lines[0], ["NAME", "POD", "DESIRE", "PHASE", "AGE"]);
  assert.deepEqual(lines[1]?.slice(0, 4), ["atlas-2", "atlas-2", "Hibernate", "Hibernating"]);
});

test("every field explains itself", async () => {
  // What the server says of its types follows their installation in its own time.
  const agent = await eventually(() => kubectl("explain", `${plural}.spec.agent`));
  assert.match(
    agent,
    /image\t<string> -required-\n\s+What the machine starts from: in mode clone a snapshot/,
  );
  assert.match(
    agent,
    /backend\t<string>\n\s+enum: cloud-hypervisor, firecracker, qemu\n\s+Hypervisor to run/,
  );
  const fields = agent.match(/^ {2}\w+\t<.*\n(?: {2}enum: .*\n)? {4}\S/gm) ?? [];
  assert.equal(fields.length, agent.match(/^ {2}\w+\t</gm)?.length, "a field without description");
  assert.match(await kubectl("explain", "cset.spec.toolboxes.mode"), /static adopts a machine/);
  assert.match(await kubectl("explain", "ch.spec.podRef"), /in the same namespace, whose machine is meant/);
});
