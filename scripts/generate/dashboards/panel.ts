/** What a dashboard is described by, and the PromQL that panels have in common. */
type Unit = "short" | "s" | "ms" | "bytes" | "Bps" | "reqps" | "ops" | "percentunit" | "d";

interface Panel {
  readonly title: string;
  readonly unit: Unit;
  /** PromQL by legend. */
  readonly series: Readonly<Record<string, string>>;
}

export interface Dashboard {
  readonly file: string;
  readonly title: string;
  readonly panels: readonly Panel[];
}

export const rate = (metric: string, by: string, selector = ""): string =>
  `sum by (${by}) (rate(${metric}${selector === "" ? "" : `{${selector}}`}[$__rate_interval]))`;
export const quantile = (q: number, metric: string, by: string): string =>
  `histogram_quantile(${q}, sum by (${["le", by].filter(Boolean).join(", ")}) (rate(${metric}_bucket[$__rate_interval])))`;
export const formatShare = (metric: string, selector: string): string =>
  `sum(rate(${metric}{${selector}}[$__rate_interval])) / sum(rate(${metric}[$__rate_interval]))`;
