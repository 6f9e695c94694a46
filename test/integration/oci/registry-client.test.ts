/** Our client against our server: the same suite that the registry in memory passes. */
import { temporaryDirectory } from "@cocoon/testkit";
import { fixedCredential } from "@cocoon/oci";
import { registrySuite } from "@cocoon/oci/testing";
import { startRegistry } from "@cocoon/registry";

registrySuite("epoch on a file system", async () => {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(await startRegistry({ storage: { kind: "filesystem", root: path } }));
  const password = await server.createToken({
    name: "suite",
    scopes: ["repository:suite/**:pull,push,delete"],
  });
  const owned = stack.move();
  return {
    address: server.url,
    credentials: fixedCredential({ kind: "basic", username: "suite", password }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
});
