/** One metric of one part over the last hour. */
import { useEffect, useRef, type ReactNode } from "react";
import Plot from "uplot";
import type { SeriesData } from "../../../src/shared/rows.ts";
import { formatBytes } from "../format.ts";
import { texts } from "../texts.ts";

const size = { width: 420, height: 160 };

export function ChartView({ series }: { readonly series: SeriesData }): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  const { title, part, unit } = series;
  useEffect(() => {
    if (!place.current) return undefined;
    const colors = readColors(place.current);
    const axis = { stroke: colors.text, grid: { stroke: colors.line }, ticks: { stroke: colors.line } };
    const values = (_plot: Plot, marks: number[]) => marks.map((mark) => formatValue(mark, unit));
    const made = new Plot(
      {
        ...size,
        legend: { show: false },
        series: [{}, { stroke: colors.accent, width: 2 }],
        axes: [
          { ...axis, values: timeMarks, space: 70 },
          { ...axis, size: 70, values },
        ],
      },
      [[], []],
      place.current,
    );
    plot.current = made;
    return () => made.destroy();
  }, [unit]);
  useEffect(() => {
    plot.current?.setData([[...series.times], [...series.values]]);
  }, [series]);
  const last = series.values.at(-1);
  const name = texts.health.chart(title, part);
  return (
    <figure>
      <figcaption>
        {name} <strong>{typeof last === "number" ? formatValue(last, unit) : ""}</strong>
      </figcaption>
      <div
        ref={place}
        role="img"
        aria-label={`${name}: ${typeof last === "number" ? formatValue(last, unit) : ""}`}
      />
    </figure>
  );
}

function readColors(element: Element): {
  readonly text: string;
  readonly line: string;
  readonly accent: string;
} {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return { text: read("--text"), line: read("--line"), accent: read("--accent") };
}

function formatValue(value: number, unit: string): string {
  if (unit === "bytes") return formatBytes(value);
  const text = Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
  return unit === "per second" ? `${text}/s` : text;
}

function timeMarks(_plot: Plot, marks: number[]): string[] {
  return marks.map((mark) =>
    new Date(mark * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }),
  );
}
