import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import tls from "node:tls";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { allowWithPatch, type AdmissionEndpoint } from "./index.ts";
import { podReview, startTestServer, testClient } from "./testing/review-client.ts";

/** Uses every field as its type promises: a field of another type would throw, and that would be a 500. */
const greedy: AdmissionEndpoint = {
  name: "greedy",
  handler: async (request) => {
    const { kind, resource, userInfo, object, oldObject } = request;
    const words = [request.uid, request.name, request.namespace, request.operation, request.subResource];
    const more = [kind.group, kind.kind, resource.resource, userInfo.username];
    const shouted = [...words, ...more, ...userInfo.groups, ...Object.values(userInfo.extra).flat()].map(
      (word) => word.toUpperCase(),
    );
    const fields = [object, oldObject].flatMap((each) => Object.keys(each ?? {}));
    const value = { seen: String(shouted.length + fields.length) };
    return allowWithPatch([{ op: "add", path: "/metadata/labels", value }]);
  },
};

const oddValues = [
  "null",
  "true",
  "[]",
  "{}",
  '""',
  "-0",
  "1e999",
  '"\\ud800"',
  "[[[]]]",
  '{"__proto__":{"x":1}}',
];

function mutations(random: () => number): readonly ((body: string) => string | Buffer)[] {
  const pick = (below: number) => Math.floor(random() * below);
  const anyBytes = (length: number) => Buffer.from(Array.from({ length }, () => pick(256)));
  return [
    (body) => body.slice(0, pick(body.length)),
    (body) => {
      const bytes = Buffer.from(body);
      for (let flips = 1 + pick(4); flips > 0; flips -= 1) bytes[pick(bytes.length)] = pick(256);
      return bytes;
    },
    (body) => {
      const at = pick(body.length);
      return body.slice(0, at) + body.slice(at + 1 + pick(40));
    },
    (body) => Buffer.concat([Buffer.from(body.slice(0, pick(body.length))), anyBytes(pick(200))]),
    () => anyBytes(pick(2000)),
    () => "[".repeat(pick(3000)) + "]".repeat(pick(3000)),
    () => `{"request":${'{"object":'.repeat(pick(600))}`,
    // A value of another type somewhere: often still a review.
    (body) => {
      const members = [...body.matchAll(/"\w+":("[^"]*"|\[[^[\]]*\]|\{[^{}]*\}|true|false|null)/g)];
      const member = members[pick(members.length)];
      const odd = oddValues[pick(oddValues.length)] ?? "null";
      if (!member) return body;
      const name = member[0].slice(0, member[0].indexOf(":") + 1);
      return body.slice(0, member.index) + name + odd + body.slice(member.index + member[0].length);
    },
    () => `{"request":${oddValues[pick(oddValues.length)]}}`,
    () => oddValues[pick(oddValues.length)] ?? "",
    (body) => body + body,
    (body) => `${" ".repeat(pick(5000))}${body}${"\n".repeat(pick(50))}`,
  ];
}

test("malformed bodies are answered 400, never 500, never left hanging", { timeout: 600_000 }, async (t) => {
  const random = seededRandom(testSeed());
  const server = await startTestServer({ endpoints: { "/greedy": greedy } });
  const client = testClient(server.url, { maxSockets: 16 });
  t.after(() => server.stop());
  t.after(() => client[Symbol.dispose]());
  const kinds = mutations(random);
  const full = JSON.stringify(
    podReview({
      oldObject: { metadata: { labels: { a: "b" } } },
      userInfo: { username: "u", extra: { a: ["b"] } },
    }),
  );
  const rounds = count({ small: 1000, full: 10_000 });
  const statuses = new Map<number, number>();
  let left = rounds;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const body = kinds[left % kinds.length]?.(full) ?? "";
      const answer = await client.send("/greedy", { body });
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      assert.ok(
        answer.status === 200 || answer.status === 400,
        `${answer.status} ${answer.text} for ${JSON.stringify(body.toString())}`,
      );
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  t.diagnostic(
    `${rounds} bodies: ${[...statuses].map(([status, times]) => `${status} ${times}x`).join(", ")}`,
  );
  assert.ok((statuses.get(400) ?? 0) > rounds / 2, "most of them are no reviews");
  assert.ok((statuses.get(200) ?? 0) > 0, "some of them still are");
  assert.equal((await client.send("/greedy", { body: full })).status, 200, "the server is as it was");
});

test("what is not HTTP at all ends in a closed connection, and the server goes on", async (t) => {
  const random = seededRandom(testSeed() + 1);
  const server = await startTestServer({ endpoints: { "/greedy": greedy }, limits: { headersMs: 500 } });
  t.after(() => server.stop());
  for (let round = 0; round < count({ small: 20, full: 200 }); round += 1) {
    const socket = tls.connect({ port: server.port, host: "127.0.0.1", rejectUnauthorized: false });
    socket.on("error", () => undefined);
    await once(socket, "secureConnect");
    const starts = [
      "",
      "POST /greedy HTTP/1.1\r\n",
      "POST /greedy HTTP/9.9\r\n\r\n",
      "GET",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    socket.write(starts[round % starts.length] ?? "");
    socket.write(Buffer.from(Array.from({ length: 200 }, () => Math.floor(random() * 256))));
    socket.resume();
    if (!socket.closed) await once(socket, "close");
  }
  using client = testClient(server.url);
  assert.equal((await client.send("/greedy", { body: JSON.stringify(podReview()) })).status, 200);
});
