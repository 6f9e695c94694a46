/** The Python SDK of agent-sandbox, as PyPI has it, on `npm run up -- --agent-sandbox`. It comes from the network: full tier. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { clusterLayout } from "@cocoon/controlplane";
import { eventually, fullTierOnly, runCommand, testBinaries } from "@cocoon/testkit";
import { newHome, npm } from "./home.ts";

const version = "1.0.8";

async function ensurePython(): Promise<string> {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const directory = join(cache, "cocoon", `agent-sandbox-python-${version}`);
  const python = join(directory, "bin", "python");
  if (existsSync(join(directory, "complete"))) return python;
  const make = `python3 -m venv '${directory}' && '${python}' -m pip install -q 'k8s-agent-sandbox==${version}' && touch '${directory}/complete'`;
  const made = await runCommand("sh", ["-c", make], { timeoutMs: 300_000 });
  assert.equal(made.code, 0, made.stderr);
  return python;
}

const resources = { requests: { cpu: "250m", memory: "128Mi" }, limits: { memory: "128Mi" } };
const apiVersion = "extensions.agents.x-k8s.io/v1beta1";
const objects = [
  {
    apiVersion,
    kind: "SandboxTemplate",
    metadata: { name: "tpl" },
    spec: { podTemplate: { spec: { containers: [{ name: "agent", image: "cocoon-demo", resources }] } } },
  },
  {
    apiVersion,
    kind: "SandboxWarmPool",
    metadata: { name: "pool" },
    spec: { replicas: 1, sandboxTemplateRef: { name: "tpl" } },
  },
];

test(
  `PyPI k8s-agent-sandbox ${version}: create, run, files, suspend and resume with memory, get, list, delete`,
  fullTierOnly("the Python SDK comes from the network"),
  async () => {
    const python = await ensurePython();
    await using state = await newHome();
    const home = state.path;
    const up = await npm(home, "up", "--", "--agent-sandbox");
    assert.equal(up.code, 0, up.stderr + up.stdout);
    const [, url = ""] = /api_url="(http:\/\/127\.0\.0\.1:\d+)"/.exec(up.stdout) ?? [];
    assert.notEqual(url, "", up.stdout);
    const { kubectl: program } = await testBinaries();
    const kubeconfig = clusterLayout(home).kubeconfig;
    const kubectl = async (args: readonly string[], input?: string) => {
      const ran = await runCommand(program, args, {
        env: { KUBECONFIG: kubeconfig },
        ...(input === undefined ? {} : { input }),
        timeoutMs: 240_000,
      });
      assert.equal(ran.code, 0, `kubectl ${args.join(" ")}: ${ran.stderr}`);
      return ran.stdout.trim();
    };
    await kubectl(["apply", "-f", "-"], objects.map((each) => JSON.stringify(each)).join("\n---\n"));
    const refused = await fetch(`${url}/`, { headers: { "x-sandbox-id": "s1" } });
    assert.equal(refused.status, 401, "without a token");
    await kubectl(["create", "serviceaccount", "agent"]);
    await kubectl([
      "create",
      "clusterrolebinding",
      "agent",
      "--clusterrole=cluster-admin",
      "--serviceaccount=default:agent",
    ]);
    const token = await kubectl(["create", "token", "agent"]);
    await kubectl(["wait", "swp/pool", "--for=jsonpath={.status.readyReplicas}=1", "--timeout=200s"]);
    const ran = await runCommand(python, [join(import.meta.dirname, "agent-sandbox.py")], {
      env: { KUBECONFIG: kubeconfig, ROUTER_URL: url, ROUTER_TOKEN: token },
      timeoutMs: 600_000,
    });
    assert.equal(ran.stdout.trim().split("\n").at(-1), "ok", `${ran.stderr}${ran.stdout}`);
    await kubectl(["delete", "sandboxwarmpool", "pool"]);
    await eventually(
      async () => assert.equal(await kubectl(["get", "sandboxes,podsnapshots", "-o", "name"]), ""),
      {
        timeoutMs: 120_000,
        intervalMs: 1_000,
      },
    );
  },
);
