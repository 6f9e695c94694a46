import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { dockerConfigPath, dockerCredentials, type Credential } from "./credentials.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");

async function find(config: unknown, host: string, signal: AbortSignal): Promise<Credential> {
  await using directory = await temporaryDirectory();
  const configPath = join(directory.path, "config.json");
  await writeFile(configPath, typeof config === "string" ? config : JSON.stringify(config));
  return await dockerCredentials({ configPath }).find(host, { signal });
}

/** A credential helper on the path, while the work runs. */
async function withHelper(script: string, work: (log: string) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory();
  const program = join(directory.path, "docker-credential-test");
  const log = join(directory.path, "asked");
  await writeFile(program, `#!/bin/sh\necho "$@" >> ${log}; cat >> ${log}; echo >> ${log}\n${script}\n`);
  await chmod(program, 0o755);
  const path = process.env["PATH"];
  process.env["PATH"] = `${directory.path}${delimiter}${path}`;
  try {
    await work(log);
  } finally {
    process.env["PATH"] = path;
  }
}

describe("credentials of the docker configuration", () => {
  const auths = {
    "registry.example:5000": { auth: base64("alice:s3:cret") },
    "https://other.example/v2/": { username: "bob", password: "b" },
    "identity.example": { identitytoken: "refresh-me", auth: base64("x:y") },
    "https://index.docker.io/v1/": { auth: base64("hub:h") },
  };
  const expected: readonly [string, Credential][] = [
    ["registry.example:5000", { kind: "basic", username: "alice", password: "s3:cret" }],
    ["other.example", { kind: "basic", username: "bob", password: "b" }],
    ["identity.example", { kind: "refresh", token: "refresh-me" }],
    ["registry-1.docker.io", { kind: "basic", username: "hub", password: "h" }],
    ["registry.example", { kind: "anonymous" }],
  ];
  for (const [host, credential] of expected)
    it(`${host} is ${credential.kind}`, async ({ signal }) => {
      assert.deepEqual(await find({ auths }, host, signal), credential);
    });

  it("without a file the caller is anonymous", async ({ signal }) => {
    const source = dockerCredentials({ configPath: "/nonexistent/config.json" });
    assert.deepEqual(await source.find("x", { signal }), { kind: "anonymous" });
  });

  it("a malformed file is an error that quotes no secret", async ({ signal }) => {
    for (const text of ['{"auths":{"x":{"auth":"hush"', '{"auths":{"x":{"auth":7,"password":"hush"}}}'])
      await assert.rejects(
        find(text, "x", signal),
        (error) =>
          isFault(error, "invalid") && !JSON.stringify([error.message, String(error.cause)]).includes("hush"),
      );
  });

  it("the path follows docker's rules", () => {
    assert.equal(dockerConfigPath({ DOCKER_CONFIG: "/etc/d" }), "/etc/d/config.json");
    assert.equal(dockerConfigPath({ HOME: "/home/x" }), "/home/x/.docker/config.json");
  });
});

describe("credential helpers", () => {
  it("are asked by standard input and the answer is kept for a while", async ({ signal }) => {
    await withHelper(`echo '{"ServerURL":"x","Username":"u","Secret":"p"}'`, async (log) => {
      await using directory = await temporaryDirectory();
      const configPath = join(directory.path, "config.json");
      await writeFile(configPath, JSON.stringify({ credHelpers: { "r.example": "test" } }));
      const source = dockerCredentials({ configPath });
      for (let time = 0; time < 3; time += 1)
        assert.deepEqual(await source.find("r.example", { signal }), {
          kind: "basic",
          username: "u",
          password: "p",
        });
      assert.equal(await readFile(log, "utf8"), "get\nr.example\n");
    });
  });

  it("may hand out a token to be traded", async ({ signal }) => {
    await withHelper(`echo '{"Username":"<token>","Secret":"r"}'`, async () => {
      assert.deepEqual(await find({ credsStore: "test" }, "r.example", signal), {
        kind: "refresh",
        token: "r",
      });
    });
  });

  it("may know nothing", async ({ signal }) => {
    await withHelper("echo credentials not found in native keychain; exit 1", async () => {
      assert.deepEqual(await find({ credsStore: "test" }, "r.example", signal), { kind: "anonymous" });
    });
  });

  for (const [what, script] of [
    ["fail", "echo locked; exit 1"],
    ["answer nonsense", "echo hello"],
  ])
    it(`that ${what} stop the request: could not ask is not anonymous`, async ({ signal }) => {
      await withHelper(script ?? "", async () => {
        await assert.rejects(find({ credsStore: "test" }, "r.example", signal), (error) =>
          isFault(error, "unavailable"),
        );
      });
    });

  it("are named, not addressed", async ({ signal }) => {
    await assert.rejects(find({ credsStore: "../../bin/sh" }, "r.example", signal), (error) =>
      isFault(error, "invalid"),
    );
  });
});
