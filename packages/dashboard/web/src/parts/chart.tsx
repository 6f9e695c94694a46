/** One metric over the last hour, a line for each part that has it. */
import { useEffect, useRef, type ReactNode } from "react";
import Plot from "uplot";
import type { SeriesData } from "../../../src/shared/rows.ts";
import { formatBytes } from "../format.ts";
import { texts } from "../texts.ts";

const height = 150;
/** A chart shows at least this much time, so that two measurements do not fill it. */
const leastSeconds = 600;
const colors = ["--accent", "--good", "--calm", "--warn", "--bad", "--dim", "--text"] as const;

export function ChartView({ series }: { readonly series: readonly SeriesData[] }): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  const [first] = series;
  const unit = first?.unit ?? "count";
  const parts = series.map(({ part }) => part).join(" ");
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = createPlot(element, { unit, lines: parts.split(" ").length });
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [unit, parts]);
  useEffect(() => {
    const times = [...(first?.times ?? [])];
    plot.current?.setData([times, ...series.map(({ values }) => [...values])]);
  }, [series, first]);
  const title = first?.title ?? "";
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <div ref={place} className="plot" role="img" aria-label={describe(title, series)} />
      <ul className="legend">
        {series.map(({ part, values }, at) => (
          <li key={part} data-color={at % colors.length}>
            {part} <strong>{formatLast(values, unit)}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function createPlot(
  element: HTMLElement,
  { unit, lines }: { readonly unit: string; readonly lines: number },
): Plot {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: read("--dim"),
    grid: { stroke: read("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  const values = (_plot: Plot, marks: number[]) => marks.map((mark) => formatValue(mark, unit));
  const strokes = Array.from({ length: lines }, (_, at) => read(colors[at % colors.length] ?? "--accent"));
  return new Plot(
    {
      width: element.clientWidth || 300,
      height,
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { range: (_plot, min, max) => [Math.min(min, max - leastSeconds), max] },
        y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.15 : 1] },
      },
      series: [{}, ...strokes.map((stroke) => ({ stroke, width: 1.5, points: { show: false } }))],
      axes: [
        { ...axis, values: timeMarks, space: 60, size: 24 },
        { ...axis, size: 62, values, space: 32 },
      ],
    },
    [[], ...strokes.map(() => [])],
    element,
  );
}

function describe(title: string, series: readonly SeriesData[]): string {
  return `${title}: ${series.map(({ part, values, unit }) => texts.health.chart(part, formatLast(values, unit))).join(", ")}`;
}

function formatLast(values: readonly (number | null)[], unit: string): string {
  const last = values.at(-1);
  return typeof last === "number" ? formatValue(last, unit) : "–";
}

function formatValue(value: number, unit: string): string {
  if (unit === "bytes") return formatBytes(value);
  const text = Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
  return unit === "per second" ? `${text}/s` : text;
}

function timeMarks(_plot: Plot, marks: number[]): string[] {
  return marks.map((mark) =>
    new Date(mark * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false }),
  );
}
