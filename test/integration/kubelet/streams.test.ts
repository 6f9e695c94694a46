/** kubectl through a real API server to our kubelet API, over every path that the two can choose. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, connect, type AddressInfo } from "node:net";
import { after, describe, test } from "node:test";
import { isAlive, tryIdentify } from "@cocoon/core";
import { count, eventually, killChild, sharedControlPlane, tier, type TestCluster } from "@cocoon/testkit";
import { startTestNode, type TestNode } from "./test-node.ts";

const cluster = await sharedControlPlane();
const stack = new AsyncDisposableStack();
const node = stack.use(await startTestNode(cluster));
const namespace = stack.use(await cluster.newNamespace());
const pod = await node.newPod(namespace);

interface Path {
  readonly name: string;
  readonly declared: boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly command: string;
  readonly forward: string;
}

const spdyClient = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: "false", KUBECTL_PORT_FORWARD_WEBSOCKETS: "false" };
const allPaths: readonly Path[] = [
  {
    name: "WebSocket client, translated to SPDY",
    declared: false,
    env: {},
    command: "POST SPDY/3.1",
    forward: "POST SPDY/3.1",
  },
  {
    name: "SPDY client, passed through",
    declared: false,
    env: spdyClient,
    command: "POST SPDY/3.1",
    forward: "POST SPDY/3.1",
  },
  {
    name: "WebSocket end to end",
    declared: true,
    env: {},
    command: "GET websocket",
    forward: "GET websocket",
  },
  {
    name: "SPDY client to a node that declares WebSockets",
    declared: true,
    env: spdyClient,
    command: "POST SPDY/3.1",
    forward: "POST SPDY/3.1",
  },
];

/** A real guest is reached over the paths that are left out here, in test/integration/vk. */
const paths = tier() === "full" ? allPaths : allPaths.filter((path) => path.env !== spdyClient);
const bulkBytes = count({ small: 8, full: 100 }) * 1024 * 1024;

function exec(path: Path, args: readonly string[], input?: Uint8Array) {
  return cluster.kubectl(["exec", "-n", namespace.name, pod, ...(input ? ["-i"] : []), "--", ...args], {
    env: path.env,
    ...(input ? { input } : {}),
  });
}

for (const path of paths) {
  describe(path.name, () => {
    test("exit codes, output and errors arrive, over the path that was meant", async () => {
      await node.declareWebSockets(path.declared);
      await settled(node, path);
      for (const code of [0, 3, 137, 255]) {
        const result = await exec(path, ["sh", "-c", `echo out; echo err >&2; exit ${code}`]);
        assert.equal(result.code, code, result.stderr);
        assert.equal(result.stdout, "out\n");
        assert.match(result.stderr, /^err\n/);
      }
      const missing = await exec(path, ["/no/such/program"]);
      assert.notEqual(missing.code, 0);
      assert.match(missing.stderr, /cannot run \/no\/such\/program/);
    });

    test("bulk data passes both ways unchanged", async () => {
      const input = randomBytes(bulkBytes);
      const sent = await exec(path, ["sha256sum"], input);
      assert.equal(sent.stdout.split(" ")[0], createHash("sha256").update(input).digest("hex"));
      const text = `head -c ${bulkBytes} /dev/zero | tr '\\0' x`;
      const received = await exec(path, ["sh", "-c", text]);
      assert.equal(received.stdout.length, bulkBytes);
      assert.ok(!/[^x]/.test(received.stdout));
    });

    test("a command that ends without reading its input ends kubectl with its code", async () => {
      const result = await exec(path, ["sh", "-c", "exit 5"], Buffer.from("some input"));
      assert.equal(result.code, 5);
    });

    test("attach carries input back as output", async () => {
      const result = await cluster.kubectl(["attach", "-n", namespace.name, "-i", pod], {
        env: path.env,
        input: "hello\n",
      });
      assert.equal(result.stdout, "hello\n", result.stderr);
    });

    test("a terminal reports its size", async () => {
      node.provider.sizes.length = 0;
      const command = `stty rows 33 cols 101; ${cluster.binaries.kubectl} exec -n ${namespace.name} -it ${pod} -- sh -c 'sleep 600'`;
      const shell = spawn("script", ["-qec", command, "/dev/null"], {
        env: { ...process.env, ...path.env, KUBECONFIG: cluster.kubeconfigPath },
        stdio: ["ignore", "ignore", "ignore"],
      });
      await eventually(() => assert.deepEqual(node.provider.sizes.at(0), { width: 101, height: 33 }));
      await killChild(shell);
    });

    test("a client that is killed takes its command with it", async () => {
      node.provider.running.clear();
      const args = ["exec", "-n", namespace.name, pod, "--", "sleep", "600"];
      const client = spawn(cluster.binaries.kubectl, args, {
        env: { ...process.env, ...path.env, KUBECONFIG: cluster.kubeconfigPath },
        stdio: "ignore",
      });
      await eventually(() => assert.equal(node.provider.running.size, 1));
      const identity = tryIdentify([...node.provider.running][0] ?? 0);
      assert.ok(identity);
      client.kill("SIGKILL");
      await eventually(() => assert.equal(isAlive(identity), false), { timeoutMs: 30_000 });
    });

    test("fifty forwarded connections with half-close, and a refused one among them", async () => {
      await using echo = await startEcho();
      await using forward = await startForward(cluster, path, [`${echo.port}`, `${await closedPort()}`]);
      const bodies = await Promise.all(
        Array.from({ length: 50 }, async (_, index) => {
          const body = Buffer.alloc(200_000, String.fromCodePoint(97 + (index % 26)));
          const answer = await talk(forward.ports[0] ?? 0, body);
          return answer.equals(body);
        }),
      );
      assert.deepEqual(
        bodies,
        Array.from({ length: 50 }, () => true),
      );
      const refused = await talk(forward.ports[1] ?? 0, Buffer.from("x"));
      assert.equal(refused.length, 0);
      const after = await talk(forward.ports[0] ?? 0, Buffer.from("still here"));
      assert.equal(after.toString(), "still here", "a refused target does not end the session");
    });
  });
}

/** The API server decides by its cached Node object: wait until it has seen the change. */
async function settled(target: TestNode, path: Path): Promise<void> {
  await eventually(async () => {
    target.upgrades.length = 0;
    const probe = await exec(path, ["true"]);
    assert.equal(probe.code, 0, probe.stderr);
    assert.deepEqual(target.upgrades, [path.command]);
  });
}

test("kubectl cp copies a file both ways", async () => {
  const { mkdtemp, readFile, rm, writeFile } = await import("node:fs/promises");
  const directory = await mkdtemp("/var/tmp/cocoon-cp-");
  try {
    const content = randomBytes(300_000);
    await writeFile(`${directory}/original`, content);
    const there = await cluster.kubectl([
      "cp",
      `${directory}/original`,
      `${namespace.name}/${pod}:${directory}/inside`,
    ]);
    assert.equal(there.code, 0, there.stderr);
    assert.ok((await readFile(`${directory}/inside`)).equals(content));
    const back = await cluster.kubectl([
      "cp",
      `${namespace.name}/${pod}:${directory}/inside`,
      `${directory}/back`,
    ]);
    assert.equal(back.code, 0, back.stderr);
    assert.ok((await readFile(`${directory}/back`)).equals(content));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("logs arrive with their options; a follower that leaves is noticed", async () => {
  node.provider.logText = "one\ntwo\n";
  const plain = await cluster.kubectl([
    "logs",
    "-n",
    namespace.name,
    pod,
    "--tail=5",
    "--timestamps",
    "--since=10s",
    "--limit-bytes=5",
  ]);
  assert.equal(plain.stdout, "one\nt");
  const options = node.provider.logOptions.at(-1);
  assert.equal(options?.tailLines, 5);
  assert.equal(options?.timestamps, true);
  assert.ok(options?.since);
  const follower = spawn(cluster.binaries.kubectl, ["logs", "-f", "-n", namespace.name, pod], {
    env: { ...process.env, KUBECONFIG: cluster.kubeconfigPath },
    stdio: ["ignore", "pipe", "ignore"],
  });
  await once(follower.stdout, "data");
  follower.kill("SIGKILL");
  await eventually(() => assert.equal(node.provider.logOptions.at(-1)?.signal.aborted, true));
});

test("access is refused without a certificate of the cluster", async () => {
  const response = await fetch(`https://127.0.0.1:${node.port}/pods`).catch((error: unknown) => error);
  assert.ok(response instanceof Error, "our certificate is not one that the world trusts");
  const curl = await import("node:https").then(
    ({ get }) =>
      new Promise<number>((resolve, reject) => {
        get(`https://127.0.0.1:${node.port}/pods`, { rejectUnauthorized: false }, (answer) =>
          resolve(answer.statusCode ?? 0),
        ).on("error", reject);
      }),
  );
  assert.equal(curl, 401);
});

async function startEcho(): Promise<{ readonly port: number } & AsyncDisposable> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    socket.pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function startForward(
  target: TestCluster,
  path: Path,
  remotePorts: readonly string[],
): Promise<{ readonly ports: number[] } & AsyncDisposable> {
  node.upgrades.length = 0;
  const args = ["port-forward", "-n", namespace.name, pod, ...remotePorts.map((port) => `:${port}`)];
  const child = spawn(target.binaries.kubectl, args, {
    env: { ...process.env, ...path.env, KUBECONFIG: target.kubeconfigPath },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const ports = await eventually(() => {
    const found = [...text.matchAll(/Forwarding from 127\.0\.0\.1:(\d+)/g)].map((match) => Number(match[1]));
    assert.equal(found.length, remotePorts.length);
    return found;
  });
  assert.deepEqual(node.upgrades, [path.forward]);
  return {
    ports,
    [Symbol.asyncDispose]: async () => {
      await killChild(child);
    },
  };
}

/** Sends everything, half-closes, and returns all that comes back. */
async function talk(port: number, body: Buffer): Promise<Buffer> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const received: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => void received.push(chunk));
  socket.on("error", () => undefined);
  socket.end(body);
  // Not `once`: it takes an error, which a refused target is, for its own.
  await new Promise((resolve) => socket.once("close", resolve));
  return Buffer.concat(received);
}

after(() => stack.disposeAsync());
