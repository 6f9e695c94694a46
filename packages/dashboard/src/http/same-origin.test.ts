import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { assertSameOrigin } from "./same-origin.ts";

function request(method: string, headers: Readonly<Record<string, string>>): IncomingMessage {
  return { method, headers: { host: "page.example:8750", ...headers } } as unknown as IncomingMessage;
}

const own = { origin: "http://page.example:8750", "x-cocoon-dashboard": "1" };

test("requests of the page pass", () => {
  assertSameOrigin(request("GET", {}));
  assertSameOrigin(request("POST", { ...own, "sec-fetch-site": "same-origin" }));
  assertSameOrigin(request("POST", { "x-cocoon-dashboard": "cocoonctl" }));
  assertSameOrigin(request("GET", { origin: own.origin }), { upgrade: true });
});

test("requests that another site caused are refused", () => {
  const refused: [string, Record<string, string>, boolean?][] = [
    ["POST", { origin: "http://evil.example", "x-cocoon-dashboard": "1" }],
    ["POST", { origin: "null", "x-cocoon-dashboard": "1" }],
    ["POST", { origin: own.origin }],
    ["DELETE", {}],
    ["GET", { "sec-fetch-site": "cross-site" }],
    ["GET", { "sec-fetch-site": "same-site" }],
    ["GET", { origin: "http://page.example:9999" }],
    ["GET", {}, true],
    ["GET", { origin: "http://evil.example" }, true],
  ];
  for (const [method, headers, upgrade = false] of refused)
    assert.throws(
      () => assertSameOrigin(request(method, headers), { upgrade }),
      /does not come from this page/,
      JSON.stringify(headers),
    );
});
