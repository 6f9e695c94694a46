/** Runs named histories one after the other. */
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { checkPromises, settle } from "./check.ts";
import type { NamedHistory } from "./histories/history.ts";
import { histories } from "./histories/index.ts";
import { newModel } from "./model.ts";
import { openPlatform, setKind, type Platform } from "./platform.ts";

export interface HistoriesOptions {
  /** Separated by commas, or "all". */
  readonly names: string;
  readonly directory: string;
  readonly signal: AbortSignal;
  readonly log: (text: string) => void;
}

function selectHistories(names: string): readonly NamedHistory[] {
  if (names === "all") return histories;
  return names.split(",").map((name) => {
    const found = histories.find((each) => each.name === name);
    if (!found) throw new Error(`there is no history ${name}; --history list prints them`);
    return found;
  });
}

/** One platform serves all histories; after a failure the next one gets a platform of its own. */
export async function runHistories(options: HistoriesOptions): Promise<number> {
  const { directory, signal, log } = options;
  const failed: string[] = [];
  const left = [...selectHistories(options.names)];
  for (let number = 1; left.length > 0 && !signal.aborted; number += 1) {
    const place = join(directory, `platform-${number}`);
    await mkdir(place, { recursive: true });
    await using platform = await openPlatform({ home: join(place, "home"), signal, log });
    let usable = true;
    while (usable && !signal.aborted) {
      const history = left.shift();
      if (!history) break;
      log(`history ${history.name} (${history.finding}): ${history.title}`);
      const passed = await runOne(platform, history);
      usable = passed && history.keepsVm !== true;
      if (passed) continue;
      failed.push(history.name);
      log(`its platform is kept in ${place}`);
    }
  }
  log(failed.length === 0 ? "all histories pass" : `failed: ${failed.join(", ")}`);
  return failed.length === 0 ? 0 : 1;
}

async function runOne(platform: Platform, history: NamedHistory): Promise<boolean> {
  try {
    await history.run(platform);
    if (!history.keepsVm) await removeSets(platform);
    platform.log(`PASS ${history.name}`);
    return true;
  } catch (error) {
    platform.log(`FAIL ${history.name}: ${error instanceof Error ? error.message : String(error)}`);
    return false;
  }
}

/** Nothing of a history is left for the next one, not even snapshots. */
async function removeSets(platform: Platform): Promise<void> {
  for (const { metadata } of await platform.listSets()) {
    const purge = JSON.stringify({ spec: { deletionPolicy: "Purge" } });
    await platform.kubectl(["patch", `${setKind}/${metadata.name}`, "--type=merge", "-p", purge]);
    await platform.kubectl(["delete", `${setKind}/${metadata.name}`, "--wait=false"]);
  }
  const violations = await settle(platform, newModel(), 120_000);
  assert.deepEqual([...violations, ...(await checkPromises(platform, newModel()))], []);
}
