/** A fake `go` and a fake release site: the real build takes minutes and is exercised by every real run. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { isFault } from "@cocoon/core";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { buildProgram } from "./build.ts";
import { downloadProgram } from "./download.ts";
import { programs } from "./programs.ts";
import { resolveBinaries, type ResolveOptions } from "./resolve.ts";

const required = programs.filter(({ group }) => group === undefined);

/** Writes a `go` that counts its builds, and hangs or fails on request. */
async function standInGo(directory: string, build = "true"): Promise<string> {
  const path = join(directory, "go");
  await writeFile(
    path,
    `#!/bin/sh
case "$1" in
  env) echo go1.26.0 ;;
  list) printf 'a\\nb\\n' ;;
  build) echo "$PPID" >> ${directory}/builds; echo a >&2; ${build}; while [ "$1" != -o ]; do shift; done; echo "#!/bin/sh" > "$2"; chmod +x "$2" ;;
esac
`,
  );
  await chmod(path, 0o755);
  return path;
}

function optionsFor(directory: string, go: string): ResolveOptions {
  return {
    cacheRoot: join(directory, "cache"),
    env: { COCOON_GO: go, COCOON_NO_DOWNLOAD: "1", PATH: "" },
    signal: AbortSignal.timeout(60_000),
    onProgress: () => undefined,
  };
}

const countBuilds = async (directory: string) =>
  (await readFile(join(directory, "builds"), "utf8")).trim().split("\n").length;

test("a missing program is built once, also when two ask at the same time, and then comes from the cache", async () => {
  await using directory = await temporaryDirectory();
  const options = optionsFor(directory.path, await standInGo(directory.path));
  const [first, second] = await Promise.all([resolveBinaries(options), resolveBinaries(options)]);
  assert.deepEqual(first, second);
  assert.equal(await countBuilds(directory.path), required.length);
  await resolveBinaries({ ...options, installAllowed: false });
});

test("a cached program that was changed is not trusted", async () => {
  await using directory = await temporaryDirectory();
  const options = optionsFor(directory.path, await standInGo(directory.path));
  const found = await resolveBinaries(options);
  const { size } = await stat(found.etcd);
  await writeFile(found.etcd, "#".repeat(size));
  await resolveBinaries(options);
  assert.equal(await countBuilds(directory.path), required.length + 1);
  assert.equal(await readFile(found.etcd, "utf8"), "#!/bin/sh\n");
  const touched = new Date(Date.now() - 60_000);
  await utimes(found.etcd, touched, touched);
  await resolveBinaries(options);
  assert.equal(await countBuilds(directory.path), required.length + 1, "a new time stamp alone is no damage");
});

test("a build killed in the middle leaves nothing that blocks or fools the next one", async () => {
  await using directory = await temporaryDirectory();
  const hanging = await standInGo(directory.path, "sleep 60");
  const script = `
    import { resolveBinaries } from ${JSON.stringify(join(import.meta.dirname, "resolve.ts"))};
    await resolveBinaries({ cacheRoot: ${JSON.stringify(join(directory.path, "cache"))}, signal: AbortSignal.timeout(60000), onProgress() {},
      env: { COCOON_GO: ${JSON.stringify(hanging)}, COCOON_NO_DOWNLOAD: "1", PATH: "" } });`;
  const victim = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: "ignore",
    detached: true,
  });
  await eventually(async () => assert.equal(await countBuilds(directory.path), 1));
  process.kill(-(victim.pid ?? 0), "SIGKILL");
  await once(victim, "exit");
  const found = await resolveBinaries(optionsFor(directory.path, await standInGo(directory.path)));
  assert.equal(await readFile(found.etcd, "utf8"), "#!/bin/sh\n");
});

test("without permission to install, the error names what is missing and what to do", async () => {
  await using directory = await temporaryDirectory();
  const options = { ...optionsFor(directory.path, "go"), installAllowed: false };
  await assert.rejects(
    resolveBinaries(options),
    /missing: etcd 3\.6\.16, kube-apiserver 1\.36\.3.*COCOON_ASSETS/,
  );
});

test("COCOON_ASSETS wins, and must hold everything", async () => {
  await using directory = await temporaryDirectory();
  const assets = join(directory.path, "assets");
  await mkdir(assets);
  for (const { name } of programs) await writeFile(join(assets, name), "", { mode: 0o755 });
  const options = {
    ...optionsFor(directory.path, "go"),
    env: { COCOON_ASSETS: assets },
    installAllowed: false,
  };
  assert.equal((await resolveBinaries(options)).kubectl, join(assets, "kubectl"));
  await chmod(join(assets, "kubectl"), 0o644);
  await assert.rejects(resolveBinaries(options), /COCOON_ASSETS=.* has no executable kubectl/);
});

test("programs that not every cluster has are resolved only on request", async () => {
  await using directory = await temporaryDirectory();
  const options = optionsFor(directory.path, await standInGo(directory.path));
  const { "metrics-server": path, coredns } = await resolveBinaries(options);
  assert.deepEqual([existsSync(path), existsSync(coredns)], [false, false]);
  const unreachable = "http://127.0.0.1:1";
  const { COCOON_NO_DOWNLOAD: _unset, ...env } = options.env;
  const asked = {
    ...options,
    env,
    sites: { kubernetes: unreachable, etcd: unreachable, coredns: unreachable },
  };
  const found = await resolveBinaries({ ...asked, groups: ["metricsServer", "clusterNetwork"] });
  assert.deepEqual([found["metrics-server"], existsSync(path)], [path, true]);
  assert.equal(await countBuilds(directory.path), programs.length);
});

test("no Go, too old a Go and no disk space are each one clear message", async () => {
  await using directory = await temporaryDirectory();
  const [program] = programs;
  assert.ok(program);
  const options = {
    target: join(directory.path, "etcd"),
    signal: AbortSignal.timeout(60_000),
    onProgress: () => undefined,
  };
  await assert.rejects(
    buildProgram(program, { ...options, goCommand: join(directory.path, "none") }),
    /Go 1\.26 or newer is needed/,
  );
  const go = await standInGo(directory.path);
  await assert.rejects(
    buildProgram(program, { ...options, goCommand: go, minimumFreeBytes: 1e18 }),
    (error) =>
      isFault(error, "outOfSpace") && /needs about 1000000000\.0 GB of free disk space/.test(error.message),
  );
  const full = await standInGo(directory.path, "echo 'write etcd: no space left on device' >&2; exit 1");
  await assert.rejects(
    buildProgram(program, { ...options, goCommand: full }),
    (error) => isFault(error, "outOfSpace") && /run the command again/.test(error.message),
  );
});

test("a download with a wrong checksum is refused and the next try works", async () => {
  await using directory = await temporaryDirectory();
  const content = "#!/bin/sh\n";
  const goodSum = createHash("sha256").update(content).digest("hex");
  let sum = "0".repeat(64);
  const server = http.createServer((request, response) => {
    // etcd comes as an archive: here that site is down, so etcd is built while the rest is downloaded.
    if (request.url?.includes("SHA256SUMS")) response.writeHead(404).end();
    else response.end(request.url?.endsWith(".sha256") ? sum : content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const options: ResolveOptions = {
    ...optionsFor(directory.path, await standInGo(directory.path)),
    env: { COCOON_GO: await standInGo(directory.path), PATH: "" },
    sites: { kubernetes: site, etcd: site, coredns: site },
  };
  const etcdOnly = await resolveBinaries(options).catch((error: unknown) => error);
  assert.ok(!(etcdOnly instanceof Error), "an unreachable etcd site means building all");

  await using second = await temporaryDirectory();
  await mkdir(join(second.path, "etcd-only"));
  await writeFile(join(second.path, "etcd-only", "etcd"), "", { mode: 0o755 });
  const download = {
    ...options,
    cacheRoot: join(second.path, "cache"),
    env: { ...options.env, KUBEBUILDER_ASSETS: join(second.path, "etcd-only") },
  };
  await assert.rejects(
    resolveBinaries(download),
    /wrong checksum for .*kube-apiserver: want 0+, got [0-9a-f]{64}; the file was discarded/,
  );
  sum = goodSum;
  const found = await resolveBinaries(download);
  assert.equal(await readFile(found["kube-apiserver"], "utf8"), content);
  server.close();
});

test("coredns is taken out of its released archive", async () => {
  await using directory = await temporaryDirectory();
  await writeFile(join(directory.path, "coredns"), "#!/bin/sh\n", { mode: 0o755 });
  const archive = join(directory.path, "coredns.tgz");
  await promisify(execFile)("tar", ["-czf", archive, "-C", directory.path, "coredns"]);
  const content = await readFile(archive);
  const sum = createHash("sha256").update(content).digest("hex");
  const server = http.createServer(({ url }, response) => {
    const file = url?.split("/").at(-1) ?? "";
    if (!file.startsWith("coredns_")) response.writeHead(404).end();
    else response.end(file.endsWith(".sha256") ? `${sum}  ${file.slice(0, -".sha256".length)}\n` : content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const program = programs.find(({ name }) => name === "coredns");
  assert.ok(program);
  const target = join(directory.path, "target");
  const sites = { kubernetes: site, etcd: site, coredns: site };
  const signal = AbortSignal.timeout(60_000);
  await downloadProgram(program, { target, sites, signal, onProgress: () => undefined });
  assert.equal(await readFile(target, "utf8"), "#!/bin/sh\n");
  server.close();
});
