/**
 * Cron expressions in a time zone: when one fired last and when it fires next. Minute, hour, day of month, month, day
 * of week; lists, ranges, steps and names. As everywhere, a day matches when either day field does, if both are given.
 * A local time that a clock change skips fires when the clock has passed it; one that occurs twice fires once.
 */
import { Fault } from "@cocoon/core";

interface CronFields {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly days: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  readonly weekdays: ReadonlySet<number>;
  /** One of the day fields is `*`: the other decides alone. */
  readonly anyDay: boolean;
  readonly anyWeekday: boolean;
}

export interface Cron {
  /** The latest time at or before `now`; undefined when there is none in the last years. */
  previous(now: Date): Date | undefined;
  /** The first time after `now`. */
  next(now: Date): Date | undefined;
}

const words: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

const monthNames = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const dayNames = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/** 29 February on a given weekday may be 28 years away. */
const longestSearchDays = 366 * 29;
const dayMs = 86_400_000;

/** Throws `invalid`, naming the field that cannot be read. */
export function parseCron(expression: string, timeZone = "UTC"): Cron {
  const fields = readFields(words[expression] ?? expression);
  const zone = openZone(timeZone);
  return {
    previous: (now) => search(fields, zone, now, -1),
    next: (now) => search(fields, zone, now, 1),
  };
}

function readFields(expression: string): CronFields {
  const parts = expression.trim().split(/\s+/);
  if (parts.length !== 5)
    throw new Fault(
      "invalid",
      `"${expression}" is no cron expression: it needs five fields, has ${parts.length}`,
    );
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = parts;
  const weekdays = readField(weekday, { name: "day of week", min: 0, max: 7, names: dayNames, base: 0 });
  return {
    minutes: readField(minute, { name: "minute", min: 0, max: 59 }),
    hours: readField(hour, { name: "hour", min: 0, max: 23 }),
    days: readField(day, { name: "day of month", min: 1, max: 31 }),
    months: readField(month, { name: "month", min: 1, max: 12, names: monthNames, base: 1 }),
    weekdays: new Set([...weekdays].map((each) => each % 7)),
    anyDay: day.startsWith("*") || day === "?",
    anyWeekday: weekday.startsWith("*") || weekday === "?",
  };
}

interface FieldRange {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
  readonly base?: number;
}

function readField(text: string, range: FieldRange): Set<number> {
  const values = new Set<number>();
  for (const part of text.split(",")) for (const value of readPart(part, range)) values.add(value);
  return values;
}

function readPart(part: string, range: FieldRange): number[] {
  const [span = "", stepText] = part.split("/", 2);
  const step = stepText === undefined ? 1 : Number(stepText);
  const bad = new Fault("invalid", `cron: "${part}" is no ${range.name} (${range.min} to ${range.max})`);
  if (!Number.isSafeInteger(step) || step < 1) throw bad;
  const [from, to] = readSpan(span, range, stepText !== undefined);
  if (from === undefined || to === undefined || from < range.min || to > range.max || from > to) throw bad;
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step);
}

function readSpan(
  span: string,
  range: FieldRange,
  stepped: boolean,
): readonly [number | undefined, number | undefined] {
  if (span === "*" || span === "?") return [range.min, range.max];
  const [first = "", last] = span.split("-", 2);
  const from = readValue(first, range);
  if (last !== undefined) return [from, readValue(last, range)];
  return [from, stepped ? range.max : from];
}

function readValue(text: string, { names, base = 0 }: FieldRange): number | undefined {
  const named = names?.indexOf(text.toLowerCase()) ?? -1;
  if (named >= 0) return named + base;
  return /^\d{1,2}$/.test(text) ? Number(text) : undefined;
}

type Zone = Intl.DateTimeFormat;

function openZone(timeZone: string): Zone {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch (error) {
    throw new Fault("invalid", `"${timeZone}" is no time zone; use a name such as Europe/Berlin`, {
      cause: error,
    });
  }
}

/** What the zone's clock shows, as milliseconds of a clock in UTC that shows the same. */
function localMs(zone: Zone, at: number): number {
  const parts = Object.fromEntries(zone.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** The moment at which the zone's clock shows `local`; the first one when it shows it twice. */
function momentOf(zone: Zone, local: number): number {
  const offsets = [local - dayMs, local + dayMs].map((at) => localMs(zone, at) - at);
  const candidates = offsets.map((offset) => local - offset);
  const exact = candidates.filter((at) => localMs(zone, at) === local);
  // Skipped by a clock change: with the offset before the change it lies just behind it.
  return exact.length > 0 ? Math.min(...exact) : (candidates[0] ?? local);
}

// oxlint-disable-next-line max-params -- one search: what, where, from when, which way
function search(fields: CronFields, zone: Zone, now: Date, way: 1 | -1): Date | undefined {
  const here = localMs(zone, now.getTime());
  const today = here - (((here % dayMs) + dayMs) % dayMs);
  const times = timesOfDay(fields);
  for (let count = -1; count <= longestSearchDays; count += 1) {
    const day = today + way * count * dayMs;
    if (!dayMatches(fields, new Date(day))) continue;
    const moments = times
      .map((time) => momentOf(zone, day + time))
      .sort((left, right) => way * (left - right));
    const found = moments.find((at) => (way > 0 ? at > now.getTime() : at <= now.getTime()));
    if (found !== undefined) return new Date(found);
  }
  return undefined;
}

function timesOfDay({ hours, minutes }: CronFields): number[] {
  return [...hours].flatMap((hour) => [...minutes].map((minute) => (hour * 60 + minute) * 60_000));
}

function dayMatches(fields: CronFields, day: Date): boolean {
  if (!fields.months.has(day.getUTCMonth() + 1)) return false;
  const byDay = fields.days.has(day.getUTCDate());
  const byWeekday = fields.weekdays.has(day.getUTCDay());
  if (fields.anyDay || fields.anyWeekday) return byDay && byWeekday;
  return byDay || byWeekday;
}
