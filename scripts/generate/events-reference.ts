/** docs/reference/events.md, from a table that must agree with the sources in both directions. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventSources, notEvents, type EventSource } from "./event-table.ts";
import type { Generator } from "./generator.ts";
import { code, notice, table } from "./markdown.ts";

const path = "docs/reference/events.md";
const root = join(import.meta.dirname, "..", "..");

export const eventsReference: Generator = {
  name: "events reference",
  owns: [path],
  generate: () => {
    assertComplete();
    return [
      {
        path,
        content: `${notice("scripts/generate/event-table.ts")}${intro}${eventSources.map(section).join("")}`,
      },
    ];
  },
};

const intro = `# Events

\`kubectl get events\` and \`kubectl describe\` show them. A repetition is counted on the first one, not written again. The state itself
is in the status of the objects: an event tells that it changed.
`;

function section({ component, on, events }: EventSource): string {
  const rows = events.map(({ reason, type, meaning }) => [code(reason), type, meaning]);
  return `\n## ${component}: ${on}\n\n${table(["Reason", "Type", "Meaning"], rows)}`;
}

function formatSource(place: string): string {
  const files = place.endsWith(".ts") ? [place] : globSync(`${place}/**/*.ts`, { cwd: root });
  return files
    .filter((file) => !/\.test\.ts$|\/testing\//.test(file))
    .map((file) => readFileSync(join(root, file), "utf8"))
    .join("\n");
}

const literal =
  /(?:\breason:\s*|\bproblem\(\s*|\b(?:tell|emit)\(\s*"(?:Normal|Warning)",\s*)"([A-Z][A-Za-z]+)"/g;

/** A reason that no source writes, or one that is not in the table, stops the generation. */
function assertComplete(): void {
  for (const { directories, component, on, events } of eventSources) {
    const text = directories.map(formatSource).join("\n");
    for (const { reason, madeBy } of events)
      if (!text.includes(madeBy ?? `"${reason}"`))
        throw new Error(`${component} writes no event ${reason} on ${on}`);
    const known = new Set(events.map((event) => event.reason));
    for (const [, reason = ""] of text.matchAll(literal))
      if (!known.has(reason) && !notEvents.has(reason))
        throw new Error(`event ${reason} of ${component} is not in scripts/generate/event-table.ts`);
  }
}
