/** The reference registry, distribution (Go), on a directory, for tests that show that ours is not the only one. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startProgram } from "@cocoon/core";
import { eventually, temporaryDirectory, freePort } from "@cocoon/testkit";
import { buildGoProgram } from "./go-program.ts";

export interface DistributionServer extends AsyncDisposable {
  readonly url: string;
  readonly username: string;
  readonly password: string;
}

/** "secret", hashed once by bcrypt: the server knows no other form. */
const credentials = {
  username: "someone",
  password: "secret",
  line: "someone:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
};

export async function startDistributionServer(): Promise<DistributionServer> {
  const binary = await buildGoProgram({
    name: "distribution",
    directory: join(import.meta.dirname, "../../bench/peers/distribution"),
    package: "github.com/distribution/distribution/v3/cmd/registry",
  });
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  await mkdir(join(path, "data"));
  await writeFile(join(path, "htpasswd"), `${credentials.line}\n`, { mode: 0o600 });
  const config = {
    version: 0.1,
    log: { level: "warn", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(path, "data") }, delete: { enabled: true } },
    http: { addr: `127.0.0.1:${port}` },
    auth: { htpasswd: { realm: "test", path: join(path, "htpasswd") } },
  };
  await writeFile(join(path, "config.yml"), JSON.stringify(config)); // YAML takes JSON
  stack.use(
    await startProgram({
      name: "distribution",
      command: binary,
      args: ["serve", join(path, "config.yml")],
      logFile: join(path, "log"),
    }),
  );
  await eventually(() => fetch(`${url}/v2/`), { timeoutMs: 60_000 });
  const { username, password } = credentials;
  return { url, username, password, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
