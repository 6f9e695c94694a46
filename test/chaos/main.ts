/** `npm run chaos`: random histories of operations and faults on a platform of its own with real guests. */
import { randomInt } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { getErrorMessage } from "@cocoon/core";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { testBinaries } from "@cocoon/testkit";

import { histories } from "./histories/index.ts";
import { runIsolated } from "./isolation.ts";
import { makeReport, renderReport, writeResults, type RunSummary } from "./report.ts";
import { runRandom } from "./run-random.ts";
import { runHistories } from "./run-histories.ts";
import { parseHistory } from "./steps.ts";
import { imageCache, openPlatform } from "./platform.ts";

const insideKey = "COCOON_CHAOS_DIRECTORY";
const root = join(import.meta.dirname, "..", "..");

const options = {
  minutes: { type: "string" },
  steps: { type: "string" },
  seed: { type: "string" },
  replay: { type: "string" },
  only: { type: "string", default: "" },
  except: { type: "string", default: "" },
  history: { type: "string" },
  "settle-seconds": { type: "string", default: "240" },
  "write-docs": { type: "boolean", default: false },
  keep: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

const usage = `npm run chaos -- [OPTIONS]: random histories of operations and faults on a platform of its own with real guests

  --minutes N | --steps N   how long (default: one history of 12 steps)
  --seed S                  repeats the choices of a run (default: a random one, printed)
  --replay FILE             runs the steps of a file instead of random ones
  --only, --except KINDS    operations and faults to choose from or to leave out, separated by commas (kill, kill:etcd)
  --history NAMES           runs named histories instead ("all"; "list" prints them)
  --settle-seconds N        how long the platform may take to recover after a step (default: 240)
  --write-docs              puts the results into docs/reliability.md
  --keep                    keeps the state directory, also after success
  --help                    prints this
`;

const { values } = readOptions();
if (values.help) {
  process.stdout.write(usage);
  process.exit(0);
}

function readOptions() {
  try {
    return parseArgs({ options });
  } catch (error) {
    process.stderr.write(`${getErrorMessage(error)}\n\n${usage}`);
    return process.exit(2);
  }
}

const inside = process.env[insideKey];
process.exit(inside === undefined ? await prepareAndEnter() : await runInside(inside));

/** What needs the network is fetched first; the run itself cannot reach any. */
async function prepareAndEnter(): Promise<number> {
  if (values.history === "list") {
    for (const { name, finding, title } of histories)
      console.log(`${name.padEnd(28)} ${finding.padEnd(5)} ${title}`);
    return 0;
  }
  const signal = AbortSignal.timeout(60 * 60_000);
  await testBinaries();
  await openImageLibrary({ directory: imageCache() }).pull(demoImageName, { signal });
  const directory = await mkdtemp(join(tmpdir(), "cocoon-chaos-"));
  process.env[insideKey] = directory;
  const code = await runIsolated(process.execPath, process.argv.slice(1));
  if (code === 0 && !values.keep) await rm(directory, { recursive: true, force: true });
  else console.log(`state, logs and steps are kept in ${directory}`);
  return code;
}

function splitList(text: string): string[] {
  return text.split(",").filter((name) => name !== "");
}

async function runInside(directory: string): Promise<number> {
  const life = new AbortController();
  process.once("SIGINT", () => life.abort()).once("SIGTERM", () => life.abort());
  const began = Date.now();
  const log = (text: string) =>
    console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(7)} ${text}`);
  const settleMs = Number(values["settle-seconds"]) * 1000;
  if (values.history !== undefined)
    return runHistories({ names: values.history, directory, signal: life.signal, log });
  const until = values.minutes === undefined ? undefined : began + Number(values.minutes) * 60_000;
  const replay =
    values.replay === undefined ? undefined : parseHistory(await readFile(values.replay, "utf8"));
  const firstSeed = Number(values.seed ?? replay?.seed ?? randomInt(2 ** 31));
  const runs: RunSummary[] = [];
  let broken = 0;
  // A history whose promise broke ends; the next one starts from nothing, while there is time.
  const hasTime = () => !life.signal.aborted && until !== undefined && Date.now() < until;
  for (let index = 0; index === 0 || hasTime(); index += 1) {
    const seed = firstSeed + index;
    const place = join(directory, `history-${seed}`);
    await mkdir(place, { recursive: true });
    log(`history with seed ${seed}`);
    const historyFile = join(place, "steps.json");
    const results: RunSummary["results"][number][] = [];
    runs.push({ seed, results });
    try {
      await using platform = await openPlatform({ home: join(place, "home"), signal: life.signal, log });
      await runRandom(platform, {
        seed,
        only: splitList(values.only),
        except: splitList(values.except),
        steps:
          values.steps === undefined
            ? until === undefined && !replay
              ? 12
              : undefined
            : Number(values.steps),
        until,
        replay,
        historyFile,
        settleMs,
        onResult: (result) => results.push(result),
      });
    } catch (error) {
      if (!life.signal.aborted) log(`the history could not go on: ${String(error)}`);
      if (!life.signal.aborted) broken += 1;
    }
    const failed = results.some(({ violations }) => violations.length > 0);
    if (failed) {
      broken += 1;
      log(`BROKEN: repeat with --replay ${historyFile} (seed ${seed})`);
    } else if (!values.keep) await rm(join(place, "home"), { recursive: true, force: true });
  }
  const report = makeReport(runs, (Date.now() - began) / 60_000);
  await writeFile(join(directory, "report.json"), `${JSON.stringify(report, null, 2)}\n`);
  console.log(`\n${renderReport(report)}\n`);
  if (values["write-docs"]) await writeResults(join(root, "docs", "reliability.md"), report);
  return broken === 0 ? 0 : 1;
}
