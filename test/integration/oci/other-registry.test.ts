/** Our client against a registry that is not ours. */
import { fixedCredential } from "@cocoon/oci";
import { registrySuite } from "@cocoon/oci/testing";
import { startDistributionServer } from "../../peers/distribution-server.ts";

registrySuite("distribution", async () => {
  const server = await startDistributionServer();
  const { username, password } = server;
  return {
    address: server.url,
    credentials: fixedCredential({ kind: "basic", username, password }),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
});
