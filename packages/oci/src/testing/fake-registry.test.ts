import { fixedCredential } from "../registry/credentials.ts";
import type { FakeAuth } from "./fake-auth.ts";
import { startFakeRegistry } from "./fake-registry.ts";
import { registrySuite } from "./registry-suite.ts";

registrySuite("in memory", async () => {
  const server = await startFakeRegistry({ pageSize: 3 });
  return Object.assign(server, { address: server.url });
});

registrySuite("in memory, with tokens", async () => {
  const login = { username: "someone", password: "secret" };
  const auth: FakeAuth = { kind: "token", ...login, issued: new Map() };
  const server = await startFakeRegistry({ pageSize: 3, auth });
  return Object.assign(server, {
    address: server.url,
    credentials: fixedCredential({ kind: "basic", ...login }),
  });
});
