/**
 * dashboard: a link that opens the web page of this machine's platform, signed in as its administrator. The page's server gets a
 * token that ends with the working day; what is printed is a code that works once, within five minutes.
 */
import { systemNamespace } from "@cocoon/contract";
import { Fault, ignoreFault } from "@cocoon/core";
import { resourceType, serviceAccounts, type KubeObject } from "@cocoon/kube";
import * as z from "zod";
import { openSession, type Session } from "../cluster/session.ts";
import type { CommandSpec } from "../command-spec.ts";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { findDashboardUrl } from "../parts/dashboard-part.ts";
import { knownPlatform } from "../platform.ts";

export const command: CommandSpec = {
  usage: "dashboard",
  summary: "a link to the web page that signs you in",
  description:
    "Prints a link that opens the web page of this machine's platform and signs its browser in as administrator. The link works once, within five minutes.",
  run: dashboard,
  examples: ["cocoonctl dashboard"],
};

/** Who the browser is for the API server; made by this command, so a platform where it never ran has no such account. */
const localAdministrator = { namespace: systemNamespace, name: "cocoon-dashboard-administrator" };
const tokenSeconds = 12 * 3_600;

interface Binding extends KubeObject {
  readonly roleRef: unknown;
  readonly subjects: readonly unknown[];
}

const clusterRoleBindings = resourceType<Binding>({
  group: "rbac.authorization.k8s.io",
  version: "v1",
  kind: "ClusterRoleBinding",
  namespaced: false,
});

async function dashboard(options: HomeOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const url = findDashboardUrl((await knownPlatform(directory, process.env))?.components ?? []);
  if (url === undefined)
    throw new Fault(
      "notFound",
      `no dashboard in ${directory}; bring the platform up with npm run up, or open the address of your cluster's dashboard and sign in with a token`,
    );
  await using session = await openSession(options);
  const token = await requestToken(session);
  process.stdout.write(`${url}/link#${await requestCode(url, token, session.signal)}\n`);
}

async function requestToken({ client, signal }: Session): Promise<string> {
  const { namespace, name } = localAdministrator;
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: localAdministrator };
  await ignoreFault("alreadyExists", client.create(serviceAccounts, account, { signal }));
  const binding: Binding = {
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", namespace, name }],
  };
  await ignoreFault("alreadyExists", client.create(clusterRoleBindings, binding, { signal }));
  const answer = await client.raw({
    method: "POST",
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: tokenSeconds },
    },
    contentType: "application/json",
    signal,
  });
  return z.object({ status: z.object({ token: z.string() }) }).parse(answer).status.token;
}

async function requestCode(url: string, token: string, signal: AbortSignal): Promise<string> {
  let response: Response;
  try {
    response = await fetch(`${url}/auth/link`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-cocoon-dashboard": "cocoonctl" },
      body: JSON.stringify({ token }),
      signal,
    });
  } catch (error) {
    throw new Fault(
      "unavailable",
      `the dashboard at ${url} does not answer; npm run up starts what is down`,
      {
        cause: error,
      },
    );
  }
  const answer: unknown = await response.json();
  if (response.ok) return z.object({ code: z.string() }).parse(answer).code;
  const { message = `${response.status}` } = z.object({ message: z.string().optional() }).parse(answer);
  throw new Fault("unavailable", `the dashboard at ${url} refused the token: ${message}`);
}
