/** A client that is still sending gets to read why it was refused, over plain HTTP and TLS. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";
import { startWorld, type World } from "./world.ts";

async function makeCertificate(directory: string) {
  const [certFile, keyFile] = [join(directory, "tls.crt"), join(directory, "tls.key")];
  const options =
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x".split(" ");
  const result = await runCommand("openssl", [...options, "-keyout", keyFile, "-out", certFile]);
  assert.equal(result.code, 0, result.stderr);
  return { certFile, keyFile };
}

/** Sends a body as Go's client does: a write error before the answer was read loses the answer. */
function sendLikeGo(socket: Socket, head: string, bodyBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    let left = bodyBytes;
    const piece = Buffer.alloc(64 * 1024);
    socket.on("error", (error) => reject(error));
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const [, length, body] = /content-length: (\d+)[^]*?\r\n\r\n([^]*)$/i.exec(text) ?? [];
      if (length === undefined || (body ?? "").length < Number(length)) return;
      socket.removeAllListeners("error").on("error", () => undefined);
      socket.destroy();
      resolve(text);
    });
    const pump = () => {
      if (socket.destroyed || left <= 0) return;
      left -= piece.length;
      socket.write(piece, () => setImmediate(pump));
    };
    socket.write(head, pump);
  });
}

async function refusedOften(world: World, open: () => Socket): Promise<void> {
  const length = 48 * 1024 * 1024;
  const token = world.client.token ?? "";
  const cases = [
    { line: "PUT /v2/a/app/manifests/v1", auth: "Bearer wrong", status: 401 },
    { line: "PATCH /v2/a/app/blobs/uploads/none", auth: `Bearer ${token}`, status: 404 },
    { line: "PUT /v2/a/app/manifests/v1", auth: `Bearer ${token}`, status: 413 },
  ];
  for (let round = 0; round < 8; round += 1)
    for (const { line, auth, status } of cases) {
      const head = `${line} HTTP/1.1\r\nHost: x\r\nAuthorization: ${auth}\r\nContent-Length: ${length}\r\n\r\n`;
      const answer = await sendLikeGo(open(), head, length);
      assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `), `${line}, round ${round}`);
    }
}

const options = { loginFailuresPerMinute: 0 };

test("refusals reach clients that are still sending, over plain HTTP", async () => {
  await using world = await startWorld(options);
  await refusedOften(world, () => connect(world.registry.port, "127.0.0.1"));
});

test("refusals reach clients that are still sending, over TLS", async () => {
  await using directory = await temporaryDirectory();
  await using world = await startWorld({ ...options, tls: await makeCertificate(directory.path) });
  const port = world.registry.port;
  await refusedOften(world, () => connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false }));
});
