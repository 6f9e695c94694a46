/** What `up` says about agent-sandbox where it is served. */
import { findSandboxRouterUrl } from "./parts/parts.ts";

/** Empty where it is not served. */
export async function describeAgentSandbox(directory: string): Promise<string> {
  const url = await findSandboxRouterUrl(directory);
  if (url === undefined) return "";
  return `
agent-sandbox is served (docs/how-to/agent-sandbox.md). For its Python SDK (pip install k8s-agent-sandbox):
  SandboxDirectConnectionConfig(api_url="${url}", extra_headers={"Authorization": "Bearer TOKEN"})
  with a TOKEN of a user that may patch the Sandbox, such as: kubectl create token NAME
`;
}
