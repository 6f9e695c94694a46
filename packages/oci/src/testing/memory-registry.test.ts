import { fixedCredential } from "../registry/credentials.ts";
import type { MemoryAuth } from "./memory-auth.ts";
import { startMemoryRegistry } from "./memory-registry.ts";
import { registrySuite } from "./registry-suite.ts";

registrySuite("in memory", async () => {
  const server = await startMemoryRegistry({ pageSize: 3 });
  return Object.assign(server, { address: server.url });
});

registrySuite("in memory, with tokens", async () => {
  const login = { username: "someone", password: "secret" };
  const auth: MemoryAuth = { kind: "token", ...login, issued: new Map() };
  const server = await startMemoryRegistry({ pageSize: 3, auth });
  return Object.assign(server, {
    address: server.url,
    credentials: fixedCredential({ kind: "basic", ...login }),
  });
});
