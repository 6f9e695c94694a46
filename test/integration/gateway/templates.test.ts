/** Templates that the SDK's builder makes: steps in a machine, saved, and sandboxes of them. Files go to another replica than the build. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { eventually, ownControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { Sandbox, Template } from "e2b";
import { openGatewayWorld, type GatewayWorld } from "./world.ts";

const cluster = await ownControlPlane();
let world: GatewayWorld;
const slow = { requestTimeoutMs: 240_000 };

before(async () => {
  world = await openGatewayWorld(cluster);
});

after(async () => {
  await world[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

/** A balancer in front of two replicas: the second one takes uploads, and ends after the first. */
async function openBalancer(): Promise<
  { readonly url: string; readonly uploads: string[] } & AsyncDisposable
> {
  const other = await world.newGateway();
  const uploads: string[] = [];
  const server = createServer((incoming, response) => {
    const isUpload = incoming.method === "PUT";
    const { method, url: path, headers } = incoming;
    const to = request(isUpload ? other.server.url : world.url, { method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      if (isUpload) answer.on("end", () => void other[Symbol.asyncDispose]());
    });
    if (isUpload) uploads.push(path ?? "");
    to.on("error", () => response.destroy());
    incoming.pipe(to);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    uploads,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("a template is built by its steps, and sandboxes of it have its files, environment, user and directory", async () => {
  await using context = await temporaryDirectory();
  await using balancer = await openBalancer();
  await mkdir(join(context.path, "app"));
  await writeFile(join(context.path, "app", "main.txt"), "from the client\n");
  const template = Template({ fileContextPath: context.path })
    .fromTemplate("base")
    .setEnvs({ STAGE: "built" })
    .setWorkdir("/srv/work")
    .runCmd("echo $STAGE > made; id -un >> made", { user: "root" })
    .copy("app", "/srv/app")
    .setUser("user");
  const lines: string[] = [];
  const built = await Template.build(template, "mine", {
    ...world.connection,
    apiUrl: balancer.url,
    ...slow,
    onBuildLogs: (entry) => void lines.push(entry.message),
  });
  assert.equal(built.name, "mine");
  assert.equal(balancer.uploads.length, 1);
  assert.ok(
    lines.some((line) => line.includes("RUN echo $STAGE")),
    lines.join("\n"),
  );
  assert.equal(await Template.exists("mine", world.connection), true);
  assert.equal(await Template.exists("other", world.connection), false);
  const tagged = await Template.assignTags("mine", ["v1", "stable"], world.connection);
  assert.deepEqual(tagged.tags, ["v1", "stable"]);
  const listTags = async () =>
    (await Template.getTags("mine", world.connection))
      .map(({ tag, buildId }) => `${tag} ${buildId}`)
      .toSorted();
  await eventually(async () =>
    assert.deepEqual(await listTags(), [
      `default ${built.buildId}`,
      `stable ${built.buildId}`,
      `v1 ${built.buildId}`,
    ]),
  );
  await Template.removeTags("mine", "stable", world.connection);
  await eventually(async () =>
    assert.deepEqual(await listTags(), [`default ${built.buildId}`, `v1 ${built.buildId}`]),
  );
  await assert.rejects(Sandbox.create("mine:stable", world.connection), /404/);
  const sandbox = await Sandbox.create("mine:v1", { ...world.connection, ...slow, timeoutMs: 600_000 });
  const ran = await sandbox.commands.run("cat made /srv/app/main.txt; echo $STAGE; pwd; id -un");
  assert.equal(ran.stdout, "built\nroot\nfrom the client\nbuilt\n/srv/work\nuser\n");
  assert.equal(await sandbox.kill(), true);
});

test("a step that fails ends the build with its message and its place", async () => {
  const template = Template().fromTemplate("base").runCmd("true").runCmd("echo out of luck; exit 3");
  await assert.rejects(
    Template.build(template, "broken", { ...world.connection, ...slow }),
    /ended with exit status 3/,
  );
  assert.equal(await Template.exists("broken", world.connection), false);
});
