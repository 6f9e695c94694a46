/**
 * Cron expressions of five fields in a time zone: when one fired last and when it fires next. Parsing and time zones are
 * croner's; a local time that a clock change skips fires once, after the change, and one that occurs twice fires once.
 */
import { Fault, getErrorMessage } from "@cocoon/core";
import { Cron as CronExpression } from "croner";

export interface Cron {
  /** The latest time at or before `now`; undefined when there is none. */
  previous(now: Date): Date | undefined;
  /** The first time after `now`. */
  next(now: Date): Date | undefined;
}

const words: ReadonlySet<string> = new Set([
  "@yearly",
  "@annually",
  "@monthly",
  "@weekly",
  "@daily",
  "@midnight",
  "@hourly",
]);

const parsed = new Map<string, Cron>();
/** More expressions than a cluster has; beyond, all are parsed again. */
const maxParsed = 1_000;

/** Throws `invalid`, naming the field that cannot be read. */
export function parseCron(expression: string, timeZone = "UTC"): Cron {
  const text = `${timeZone} ${expression}`;
  const known = parsed.get(text);
  if (known) return known;
  if (parsed.size >= maxParsed) parsed.clear();
  const cron = openCron(expression.trim(), timeZone);
  parsed.set(text, cron);
  return cron;
}

function openCron(expression: string, timezone: string): Cron {
  const fields = expression.split(/\s+/).length;
  if (!words.has(expression) && fields !== 5)
    throw new Fault(
      "invalid",
      `"${expression}" is not a cron expression: it needs five fields, has ${fields}`,
    );
  assertTimeZone(timezone);
  let cron: CronExpression;
  try {
    cron = new CronExpression(expression, { timezone, mode: "5-part", sloppyRanges: true });
  } catch (error) {
    throw new Fault("invalid", `"${expression}" is not a cron expression: ${getErrorMessage(error)}`, {
      cause: error,
    });
  }
  const next = (now: Date) => cron.nextRun(now) ?? undefined;
  return { next, previous: (now) => findPrevious(cron, now) };
}

function assertTimeZone(timeZone: string): void {
  try {
    void new Intl.DateTimeFormat("en-US", { timeZone });
  } catch (error) {
    throw new Fault("invalid", `"${timeZone}" is not a time zone; use a name such as Europe/Berlin`, {
      cause: error,
    });
  }
}

/** From one that surely was earlier onwards: so it is always one that `next` gives, also around clock changes. */
function findPrevious(cron: CronExpression, now: Date): Date | undefined {
  let latest = cron.previousRuns(3, now).at(-1);
  if (latest === undefined) return undefined;
  for (let next = cron.nextRun(latest); next && next <= now; next = cron.nextRun(latest)) latest = next;
  return latest;
}
