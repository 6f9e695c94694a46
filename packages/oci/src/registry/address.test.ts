import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { readRegistryAddress } from "./address.ts";

const cases: readonly [string, Parameters<typeof readRegistryAddress>[1], string, string][] = [
  ["registry.example.com", {}, "https://registry.example.com", ""],
  ["registry.example.com:5000/team/vms/", {}, "https://registry.example.com:5000", "team/vms"],
  ["https://registry.example.com", {}, "https://registry.example.com", ""],
  ["127.0.0.1:8080", {}, "http://127.0.0.1:8080", ""],
  ["localhost:8080/x", {}, "http://localhost:8080", "x"],
  ["[::1]:8080", {}, "http://[::1]:8080", ""],
  ["127.0.0.1:8080", { tls: true }, "https://127.0.0.1:8080", ""],
  ["epoch.cocoon-system.svc:8080", { plainHttp: true }, "http://epoch.cocoon-system.svc:8080", ""],
  ["http://epoch.cocoon-system.svc:8080", { plainHttp: true }, "http://epoch.cocoon-system.svc:8080", ""],
];

for (const [text, rules, origin, prefix] of cases)
  test(`${text} with ${JSON.stringify(rules)} is ${origin}`, () => {
    const address = readRegistryAddress(text, rules);
    assert.deepEqual([address.origin, address.prefix], [origin, prefix]);
  });

for (const text of [
  "",
  "http://registry.example.com",
  "https://user:secret@registry.example.com",
  "https://registry.example.com/?x=1",
  "not a host",
])
  test(`"${text}" is refused`, () => {
    assert.throws(
      () => readRegistryAddress(text),
      (error) => isFault(error, "invalid") && !error.message.includes("secret"),
    );
  });
