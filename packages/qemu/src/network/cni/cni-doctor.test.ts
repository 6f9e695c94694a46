import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { findCniProblems } from "./cni-doctor.ts";

test("each thing that is missing is named with its fix; a host without CNI has no problem", async (t) => {
  await using directory = await temporaryDirectory();
  const at = (...parts: readonly string[]) => join(directory.path, ...parts);
  const options = {
    confDirectory: at("net.d"),
    binDirectories: [at("bin")],
    sysDirectory: at("sys"),
    signal: t.signal,
  };
  assert.deepEqual(await findCniProblems(options), { problems: [] });
  await mkdir(at("net.d"));
  await writeFile(
    at("net.d", "10.conflist"),
    JSON.stringify({
      cniVersion: "1.0.0",
      name: "net",
      plugins: [{ type: "bridge", ipam: { type: "host-local" } }],
    }),
  );
  const before = await findCniProblems(options);
  assert.equal(before.network, "net");
  const texts = before.problems.map(({ found, fix }) => `${found}: ${fix}`).join("\n");
  assert.match(texts, /plugins are missing in .*: bridge, host-local/);
  assert.match(texts, /does not forward packets.*ip_forward=1/);
  assert.match(texts, /same bridge: modprobe br_netfilter/);
  await mkdir(at("bin"));
  for (const plugin of ["bridge", "host-local"]) await writeFile(at("bin", plugin), "", { mode: 0o755 });
  for (const [path, value] of [
    ["net/ipv4/ip_forward", "1\n"],
    ["net/bridge/bridge-nf-call-iptables", "0\n"],
  ] as const) {
    await mkdir(at("sys", path, ".."), { recursive: true });
    await writeFile(at("sys", path), value);
  }
  const after = (await findCniProblems(options)).problems.map(({ fix }) => fix).join("\n");
  assert.match(after, /bridge-nf-call-iptables=1/);
  assert.doesNotMatch(after, /containernetworking-plugins|ip_forward/);
  await writeFile(at("net.d", "10.conflist"), "{");
  assert.match((await findCniProblems(options)).problems[0]?.found ?? "", /10\.conflist is no JSON/);
});
