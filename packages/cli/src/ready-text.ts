/** What `up` says when it is done: where everything is, and what to try. */
import { demoPod } from "./demo.ts";
import type { GatewayAccess } from "./gateway-key.ts";
import type { NetworkChoice } from "./network/choose-network.ts";
import type { Platform } from "./platform.ts";
import { shellWord } from "./shell-words.ts";

interface ReadyParts {
  readonly gateway?: GatewayAccess | undefined;
  readonly network?: NetworkChoice | undefined;
}

function networkText({ network, missing }: NetworkChoice): string {
  if (network === "cni")
    return `
Machines are on a network of their own: they reach each other on both nodes, Services and names (docs/how-to/cluster-network.md).
`;
  const how = missing ?? "npm run up as root gives one to a new platform";
  return `
Machines have forwarded ports only: they do not reach each other, Services do not reach them. A network of their own: ${how}.
`;
}

/** The two variables of the SDKs, and a script to try. */
function gatewayText({ url, key }: GatewayAccess): string {
  return `
Sandboxes for the E2B SDKs (npm install e2b; docs/gateway.md):
  export E2B_API_URL=${url} E2B_SANDBOX_URL=${url} E2B_API_KEY=${key}

  import { Sandbox } from "e2b";
  const sandbox = await Sandbox.create("demo");
  await sandbox.files.write("hello.txt", "hello");
  console.log((await sandbox.commands.run("cat hello.txt; uname -a")).stdout);
  await sandbox.kill();

  Sandbox.create() without a name starts Debian with Python and git; its first use builds that image, which takes minutes.
`;
}

// oxlint-disable-next-line max-params -- what is up, how it was asked for, and what it offers
export function readyText(
  platform: Platform,
  { parts, demo }: { readonly parts: boolean; readonly demo: boolean },
  { gateway, network }: ReadyParts,
): string {
  const machines =
    parts && demo
      ? `
  npm run cocoonctl -- get machines         what there is
  kubectl exec -it ${demoPod} -- sh            a shell in a machine
  npm run cocoonctl -- suspend demo         it sleeps in the registry; resume wakes it as it was`
      : `
  kubectl get namespaces`;
  return `
Cocoon is up: Kubernetes API at ${platform.server}

Try:
  eval "$(npm run --silent cocoonctl -- env)"   kubectl of this shell is then this cluster's${machines}
  npm run cocoonctl -- dashboard            a link that opens the web page, signed in
  npm run status                            what runs
  npm run down                              stop it (the data stays; -- --wipe removes it)

Without eval: export KUBECONFIG=${shellWord(platform.kubeconfig)}
${network ? networkText(network) : ""}${gateway ? gatewayText(gateway) : ""}`;
}
