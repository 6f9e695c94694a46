/** kubectl against a real guest: commands, files, terminals, logs and ports, over both kinds of streams. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { after, describe, test } from "node:test";
import { count, eventually, killChild, sharedControlPlane, temporaryDirectory, tier } from "@cocoon/testkit";
import { buildOldKubectl } from "../../peers/old-kubectl.ts";
import { startEcho, startForward, talk } from "./forwarding.ts";
import { newClients, openRealGuest, type Client } from "./real-guest.ts";

const cluster = await sharedControlPlane();
const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());
const guest = stack.use(await openRealGuest(cluster));
const bulkBytes = count({ small: 2, full: 100 }) * 1024 * 1024;
const connections = count({ small: 20, full: 50 });

const clients: readonly Client[] =
  tier() === "full"
    ? [...newClients(cluster), { name: "kubectl 1.30", program: await buildOldKubectl(), env: {} }]
    : newClients(cluster);

/** Random bytes that are made while they are sent, and their digest. */
function noise(bytes: number) {
  const hash = createHash("sha256");
  const pieceBytes = 64 * 1024;
  const source = Readable.from(
    (function* () {
      for (let left = bytes; left > 0; left -= pieceBytes) {
        const piece = randomBytes(Math.min(left, pieceBytes));
        hash.update(piece);
        yield piece;
      }
    })(),
    { objectMode: false },
  );
  return { source, digest: () => hash.digest("hex") };
}

const [echoPort, closedPort] = [7007, 7008];
const [newest] = newClients(cluster);
assert.ok(newest);
const ask = newest;
await startEcho(guest, ask, echoPort);

for (const client of clients)
  describe(client.name, () => {
    const kubectl = (args: readonly string[], input?: string) =>
      guest.kubectl(client, args, input === undefined ? {} : { input });

    test("exit codes, output and errors of a command arrive", async () => {
      for (const code of [0, 3, 137, 255]) {
        const ran = await kubectl([
          "exec",
          guest.pod,
          "--",
          "sh",
          "-c",
          `echo out; echo err >&2; exit ${code}`,
        ]);
        assert.equal(ran.code, code, ran.stderr);
        assert.equal(ran.stdout, "out\n");
        assert.match(ran.stderr, /^err\n/);
      }
      const missing = await kubectl(["exec", guest.pod, "--", "/no/such/program"]);
      assert.notEqual(missing.code, 0);
    });

    test("bulk data passes through the guest and back byte for byte", async () => {
      const child = guest.start(client, ["exec", "-i", guest.pod, "--", "cat"]);
      assert.ok(child.stdin && child.stdout && child.stderr);
      const { source, digest } = noise(bulkBytes);
      const received = createHash("sha256");
      let receivedBytes = 0;
      child.stdout.on("data", (piece: Buffer) => {
        receivedBytes += piece.length;
        received.update(piece);
      });
      let complaint = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (complaint += text));
      const closed = once(child, "close");
      await pipeline(source, child.stdin);
      const [code] = (await closed) as [number | null];
      assert.equal(code, 0, complaint);
      assert.equal(receivedBytes, bulkBytes);
      assert.equal(received.digest("hex"), digest());
    });

    test("files are copied both ways", async () => {
      await using directory = await temporaryDirectory();
      const content = randomBytes(700_001);
      const [original, back] = [join(directory.path, "original"), join(directory.path, "back")];
      await writeFile(original, content);
      const there = await kubectl(["cp", original, `${guest.pod}:/root/copy`]);
      assert.equal(there.code, 0, there.stderr);
      const digest = await guest.run("sha256sum", "/root/copy");
      assert.equal(digest.split(" ")[0], createHash("sha256").update(content).digest("hex"));
      const here = await kubectl(["cp", `${guest.pod}:/root/copy`, back]);
      assert.equal(here.code, 0, here.stderr);
      assert.ok((await readFile(back)).equals(content));
    });

    test("a terminal has its size, and follows when it changes", async () => {
      await using directory = await temporaryDirectory();
      const go = join(directory.path, "go");
      const inGuest =
        'until [ "$(stty size)" = "33 101" ]; do sleep 0.1; done; stty size; while [ "$(stty size)" = "33 101" ]; do sleep 0.1; done; stty size; exit 4';
      const command = `stty rows 33 cols 101; (while [ ! -e ${go} ]; do sleep 0.1; done; stty rows 44 cols 120 </dev/tty) & ${client.program} -n ${guest.world.namespace.name} exec -it ${guest.pod} -- sh -c '${inGuest}'`;
      const shell = spawn("script", ["-qec", command, "/dev/null"], {
        env: { ...process.env, ...client.env, KUBECONFIG: cluster.kubeconfigPath },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let text = "";
      shell.stdout.setEncoding("utf8").on("data", (piece: string) => (text += piece));
      const closed = once(shell, "close");
      await eventually(() => assert.match(text, /33 101/), { timeoutMs: 60_000 });
      await writeFile(go, "");
      const [code] = (await closed) as [number | null];
      assert.match(text, /44 120/);
      assert.equal(code, 4, text);
    });

    test("attach is the serial console", async () => {
      const child = guest.start(client, ["attach", "-i", guest.pod]);
      assert.ok(child.stdin && child.stdout);
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (piece: string) => (text += piece));
      try {
        await eventually(
          () => {
            child.stdin?.write("echo attached-$((6*7))\n");
            assert.match(text, /attached-42/);
          },
          { timeoutMs: 60_000, intervalMs: 500 },
        );
      } finally {
        await killChild(child);
      }
    });

    test("many forwarded connections at once, each half-closed; a refused one does not end the others", async () => {
      await using forward = await startForward(guest, client, [echoPort, closedPort]);
      const [echo = 0, closed = 0] = forward.ports;
      const answers = await Promise.all(
        Array.from({ length: connections }, async (_each, index) => {
          const body = Buffer.alloc(100_000, String.fromCodePoint(97 + (index % 26)));
          return (await talk(echo, body)).equals(body);
        }),
      );
      assert.deepEqual(
        answers,
        Array.from({ length: connections }, () => true),
      );
      const large = Buffer.alloc(6 * 1024 * 1024, "more than is buffered on the way");
      assert.ok(
        (await talk(echo, large)).equals(large),
        "a guest that is slower than its client is waited for",
      );
      assert.equal((await talk(closed, Buffer.from("x"))).length, 0);
      assert.equal((await talk(echo, Buffer.from("still here"))).toString(), "still here");
    });
  });

test("logs show the console: its end, live, and with times", async () => {
  const mark = `mark-${randomBytes(4).toString("hex")}`;
  const print = (text: string) => guest.run("sh", "-c", `echo ${text} > /dev/console`);
  await print(`${mark}-one`);
  await eventually(async () => {
    const shown = await guest.kubectl(ask, ["logs", guest.pod]);
    assert.match(shown.stdout, new RegExp(`${mark}-one`));
  });
  const tail = await guest.kubectl(ask, ["logs", guest.pod, "--tail=1"]);
  assert.equal(tail.stdout.split("\n").filter(Boolean).length, 1, tail.stdout);
  const dated = await guest.kubectl(ask, ["logs", guest.pod, "--tail=1", "--timestamps"]);
  assert.match(dated.stdout, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z /);
  // What was there at the last look is older than the last moment.
  await eventually(async () => {
    const recent = await guest.kubectl(ask, ["logs", guest.pod, "--since=1s"]);
    assert.doesNotMatch(recent.stdout, new RegExp(`${mark}-one`));
  });
  const follower = guest.start(ask, ["logs", "-f", "--tail=1", guest.pod]);
  let text = "";
  follower.stdout?.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  try {
    await eventually(() => assert.notEqual(text, ""));
    await print(`${mark}-two`);
    await eventually(() => assert.match(text, new RegExp(`${mark}-two`)));
  } finally {
    await killChild(follower);
  }
});

test("get -o wide and describe show the machine well", async () => {
  const wide = await guest.kubectl(ask, ["get", "pod", guest.pod, "-o", "wide"]);
  assert.match(
    wide.stdout,
    new RegExp(`${guest.pod} +1/1 +Running +0 +\\S+ +127\\.\\S+ +${guest.node.name}`),
  );
  const told = await guest.kubectl(ask, ["describe", "pod", guest.pod]);
  assert.match(told.stdout, /Container ID: +cocoon:\/\/[A-Z2-7]{26}/);
  assert.match(told.stdout, /Ready +True/);
  assert.match(told.stdout, /ProviderCreateSuccess/);
});
