import assert from "node:assert/strict";
import { test } from "node:test";
import { readListenAddress } from "./listen-address.ts";

test("addresses to listen on, with and without a host", () => {
  for (const [text, host, port] of [
    [":9091", "0.0.0.0", 9091],
    ["127.0.0.1:0", "127.0.0.1", 0],
    ["[::1]:8080", "::1", 8080],
    ["epoch.example.com:65535", "epoch.example.com", 65_535],
  ] as const)
    assert.deepEqual(readListenAddress(text, "--addr"), { host, port });
});

test("what is no address is named with its setting", () => {
  for (const text of ["", "nine", "8080", ":", "a:b", "1:2:3", ":65536", "::1:80"])
    assert.throws(() => readListenAddress(text, "METRICS_ADDR"), {
      code: "invalid",
      message: `METRICS_ADDR: "${text}" is not of the form [host]:port`,
    });
});
