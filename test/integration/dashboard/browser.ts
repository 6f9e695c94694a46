/** A dashboard beside the control plane of the tests, users with rights of their own, and a client that keeps cookies. */
import assert from "node:assert/strict";
import { silentLogger, readConfig } from "@cocoon/core";
import { dashboardProgram, startDashboard, type RunningDashboard } from "@cocoon/dashboard";
import type { TestCluster } from "@cocoon/testkit";
import { buildPage } from "../../../scripts/build/web.ts";

export interface StartOptions {
  readonly cluster: TestCluster;
  readonly signal: AbortSignal;
  readonly args?: readonly string[];
}

/** The kubeconfig is the administrator's: if the dashboard ever used it for a user, that user could do everything. */
export async function startTestDashboard({
  cluster,
  signal,
  args = [],
}: StartOptions): Promise<RunningDashboard> {
  const page = await buildPage();
  const argv = [
    "--listen-addr",
    "127.0.0.1:0",
    "--kubeconfig",
    cluster.kubeconfigPath,
    "--page",
    page,
    ...args,
  ];
  const result = readConfig(dashboardProgram, { argv, env: {} });
  assert.equal(result.kind, "config");
  return startDashboard({ config: result.config, log: silentLogger, signal });
}

/** A service account with these rights in its namespace; returns its token. */
export async function createUser(
  cluster: TestCluster,
  user: {
    readonly namespace: string;
    readonly name: string;
    readonly rules: readonly (readonly [verbs: string, resources: string])[];
  },
): Promise<string> {
  const { namespace, name, rules } = user;
  const run = async (...args: string[]) => {
    const ran = await cluster.kubectl(["-n", namespace, ...args]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout.trim();
  };
  await run("create", "serviceaccount", name);
  for (const [index, [verbs, resources]] of rules.entries()) {
    await run("create", "role", `${name}-${index}`, `--verb=${verbs}`, `--resource=${resources}`);
    await run(
      "create",
      "rolebinding",
      `${name}-${index}`,
      `--role=${name}-${index}`,
      `--serviceaccount=${namespace}:${name}`,
    );
  }
  return run("create", "token", name);
}

export class TestBrowser {
  readonly url: string;
  cookies = new Map<string, string>();

  constructor(url: string) {
    this.url = url;
  }

  async send(path: string, init: RequestInit & { readonly own?: boolean } = {}): Promise<Response> {
    const { own = true, ...rest } = init;
    const headers = new Headers(rest.headers);
    headers.set("cookie", this.cookieHeader());
    if (own) headers.set("x-cocoon-dashboard", "1");
    if (rest.body !== undefined && !headers.has("content-type"))
      headers.set("content-type", "application/json");
    const response = await fetch(this.url + path, { ...rest, headers });
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ""] = cookie.split(";");
      const equals = pair.indexOf("=");
      this.cookies.set(pair.slice(0, equals), pair.slice(equals + 1));
    }
    return response;
  }

  cookieHeader(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  }

  async signIn(token: string): Promise<void> {
    const response = await this.send("/auth/token", { method: "POST", body: JSON.stringify({ token }) });
    assert.equal(response.status, 200, await response.text());
  }
}

export const attack = `"><img src=x onerror=alert(1)><script>alert(2)</script>`;
