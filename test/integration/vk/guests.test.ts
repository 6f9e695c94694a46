/** Real guests in ways that take their time: by SSH, cloned from the registry and from a directory. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { fullTierOnly, runCommand, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { demoMachine, demoPod, newClients, openRealGuest, openRealNode, reaches } from "./real-guest.ts";
import { cloneMachine, deletePod, snapshotDirectory } from "./sources.ts";

async function bySsh(): Promise<void> {
  const cluster = await sharedControlPlane();
  await using keys = await temporaryDirectory();
  const keyFile = join(keys.path, "key");
  const made = await runCommand("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", keyFile]);
  assert.equal(made.code, 0, made.stderr);
  const privateKey = readFileSync(keyFile, "utf8");
  const sshKeys = [readFileSync(`${keyFile}.pub`, "utf8").trim()];
  await using guest = await openRealGuest(cluster, {
    changes: { ssh: { user: "root", privateKey }, sshKeys },
    // As in a guest that has no agent.
    wrap: (runtime) =>
      new Proxy(runtime, {
        get: (target, name) => {
          if (name === "exec") return () => Promise.reject(new Fault("notSupported", "no agent"));
          const value: unknown = Reflect.get(target, name);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      }),
  });
  for (const client of newClients(cluster)) {
    const ran = await guest.kubectl(
      client,
      ["exec", "-i", guest.pod, "--", "sh", "-c", "cat; echo 'it''s' >&2; exit 7"],
      { input: "hello" },
    );
    assert.equal(ran.stdout, "hello", ran.stderr);
    assert.match(ran.stderr, /^its\n/);
    assert.equal(ran.code, 7);
    const killed = await guest.kubectl(client, ["exec", guest.pod, "--", "sh", "-c", "kill -9 $$"]);
    assert.equal(killed.code, 137);
  }
}

async function cloned(): Promise<void> {
  const cluster = await sharedControlPlane();
  await using root = await temporaryDirectory();
  await using real = await openRealNode(cluster, { changes: { cloneRoots: [root.path] } });
  const { world, node } = real;
  const inGuest = async (pod: string, ...command: string[]) => {
    const ran = await cluster.kubectl(["exec", pod, "-n", world.namespace.name, "--", ...command]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout.trim();
  };
  const bootId = (pod: string) => inGuest(pod, "cat", "/proc/sys/kernel/random/boot_id");
  const base = `vk-${world.namespace.name}-base`;
  await world.apply(demoPod("base", node.name, demoMachine(base)));
  await reaches(world, "base", "ready");
  const boot = await bootId("base");
  await deletePod(world, "base");
  const directory = await snapshotDirectory(world, { vmName: base, below: root.path });
  const sources = { clone: { image: base, mode: "clone" }, bare: { image: base }, dir: { directory } };
  for (const [name, from] of Object.entries(sources)) {
    const vmName = `vk-${world.namespace.name}-${name}`;
    await world.apply(demoPod(name, node.name, cloneMachine(vmName, from)));
    await reaches(world, name, "ready");
    assert.equal(await bootId(name), boot, `${name} goes on where the base was`);
    assert.equal(await inGuest(name, "hostname"), vmName, "with a name of its own");
    await deletePod(world, name);
  }
}

const slow = fullTierOnly("several real guests");
test("commands run by SSH in a guest without agent, with their exit codes and input", slow, bySsh);
test("guests are cloned from the registry, by what it holds, and from a directory", slow, cloned);
