/** Asks the parts for their metrics and keeps the last hour of a few, for charts without a Prometheus. */
import { Fault, getErrorMessage, withDeadline, type Logger } from "@cocoon/core";
import { requestText } from "../http/request-text.ts";
import type { HealthData, PartHealth, SeriesData } from "../shared/rows.ts";
import { charts, type Chart } from "./charts.ts";
import { MachineUsage } from "./machine-usage.ts";
import { findLabel, sumSamples } from "./parse-metrics.ts";

export interface Target {
  readonly name: string;
  readonly url: string;
}

const everyMs = 15_000;
const keptPoints = 240; // one hour
const answerMs = 5_000;
const maxTextLength = 16 * 1024 * 1024;
const names: ReadonlySet<string> = new Set(charts.map(({ metric }) => metric));

export function readTargets(texts: readonly string[]): Target[] {
  return texts.map((text) => {
    const equals = text.indexOf("=");
    const url = URL.parse(text.slice(equals + 1));
    if (equals < 1 || url === null || !/^https?:$/.test(url.protocol))
      throw new Fault(
        "invalid",
        `--metrics-targets: "${text.slice(0, 100)}" is not of the form name=http://host:port/metrics`,
      );
    return { name: text.slice(0, equals), url: url.href };
  });
}

interface Sampled {
  readonly target: Target;
  health: PartHealth;
  readonly points: { readonly time: number; readonly values: ReadonlyMap<string, number> | undefined }[];
}

export class PartMetrics implements Disposable {
  readonly #parts: readonly Sampled[];
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  readonly usage = new MachineUsage();

  constructor(targets: readonly Target[], log: Logger) {
    this.#log = log;
    this.#parts = targets.map((target) => ({
      target,
      health: { name: target.name, up: false, version: "", error: "not asked yet" },
      points: [],
    }));
    if (targets.length === 0) return;
    this.#timer = setInterval(() => void this.#sample(), everyMs);
    void this.#sample();
  }

  get hasTargets(): boolean {
    return this.#parts.length > 0;
  }

  read(): HealthData {
    return {
      parts: this.#parts.map(({ health }) => health),
      series: this.#parts.flatMap((part) => charts.flatMap((chart) => readSeries(part, chart) ?? [])),
    };
  }

  async #sample(): Promise<void> {
    const time = Math.round(Date.now() / 1000);
    await Promise.all(this.#parts.map((part) => this.#ask(part, time)));
  }

  async #ask(part: Sampled, time: number): Promise<void> {
    const { name, url } = part.target;
    let values: Map<string, number> | undefined;
    try {
      const text = await readText(url, withDeadline(this.#stop.signal, answerMs));
      values = sumSamples(text, names);
      this.usage.update(name, text, new Date(time * 1000));
      part.health = { name, up: true, version: findLabel(text, "cocoon_build_info", "version"), error: "" };
    } catch (error) {
      part.health = { ...part.health, up: false, error: getErrorMessage(error) };
      this.#log.debug({ url, error: getErrorMessage(error) }, "metrics of a part could not be read");
    }
    part.points.push({ time, values });
    part.points.splice(0, Math.max(0, part.points.length - keptPoints));
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }
}

async function readText(url: string, signal: AbortSignal): Promise<string> {
  const { status, text } = await requestText({ url: new URL(url), maxLength: maxTextLength, signal });
  if (status !== 200) throw new Fault("unavailable", `${url} answered ${status}`);
  return text;
}

/** Undefined for a metric that the part does not have. */
function readSeries(
  { target, points }: Sampled,
  { metric, title, unit, rate }: Chart,
): SeriesData | undefined {
  if (!points.some(({ values }) => values?.has(metric))) return undefined;
  const raw = points.map(({ values }) => values?.get(metric) ?? null);
  const times = points.map(({ time }) => time);
  const values = rate ? toRates(times, raw) : raw;
  return { part: target.name, name: metric, title, unit, times, values };
}

/** A counter that went down was started again. */
function toRates(times: readonly number[], raw: readonly (number | null)[]): (number | null)[] {
  return raw.map((value, index) => {
    const before = raw[index - 1];
    const seconds = (times[index] ?? 0) - (times[index - 1] ?? 0);
    if (value === null || before === null || before === undefined || seconds <= 0) return null;
    return Math.max(0, value - before) / seconds;
  });
}
