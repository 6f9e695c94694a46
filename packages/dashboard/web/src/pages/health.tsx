/** What was checked, a map of the parts with their versions and certificates, and the last hour of their own metrics. */
import { lazy, Suspense, useMemo, type ReactNode } from "react";
import type { HealthData, SeriesData } from "../../../src/shared/rows.ts";
import { commandLine } from "../actions/action.ts";
import { session } from "../api/client.ts";
import { usePolled } from "../api/use-polled.ts";
import { useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { InstallationMap } from "../parts/installation-map.tsx";
import { CommandText, ErrorBox } from "../parts/small.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { texts } from "../texts.ts";
import { listFindings, type Finding } from "./findings.ts";

const ChartView = lazy(async () => ({ default: (await import("../parts/chart.tsx")).ChartView }));

export function HealthPage(): ReactNode {
  const { data: health, error } = usePolled(session.health);
  return (
    <section>
      <h1>{texts.nav.health}</h1>
      <ErrorBox message={error} />
      {health ? <HealthView health={health} /> : null}
    </section>
  );
}

function HealthView({ health }: { readonly health: HealthData }): ReactNode {
  const { namespace } = usePage();
  if (health.parts.length === 0) return <p>{texts.health.noTargets}</p>;
  const place = namespace === "" ? "" : `&namespace=${encodeURIComponent(namespace)}`;
  return (
    <>
      <Checks health={health} />
      <h2>{texts.map.title}</h2>
      <InstallationMap health={health} />
      <CommandText label={texts.map.doctor} command={commandLine("cocoonctl", "doctor")} />
      <h2>{texts.health.charts}</h2>
      <Charts series={health.series} />
      <h2>{texts.health.warnings}</h2>
      <Timeline query={`?warnings=true${place}`} withNames none={texts.health.noWarnings} />
    </>
  );
}

function Checks({ health }: { readonly health: HealthData }): ReactNode {
  const { store } = usePage();
  const nodes = useKind(store, "node").rows;
  const machines = useKind(store, "machine").rows;
  const findings = useMemo(
    () => listFindings({ health, nodes: [...nodes.values()], machines: [...machines.values()] }),
    [health, nodes, machines],
  );
  return (
    <ul className="checks" aria-label={texts.health.checks}>
      {findings.map((finding) => (
        <CheckCard key={finding.title} finding={finding} />
      ))}
    </ul>
  );
}

function CheckCard({ finding: { title, tone, text } }: { readonly finding: Finding }): ReactNode {
  return (
    <li className={`check ${tone}`}>
      <strong>{title}</strong>
      <span>{text}</span>
    </li>
  );
}

/** One chart for each metric, with all parts that have it. */
function Charts({ series }: { readonly series: readonly SeriesData[] }): ReactNode {
  const drawn = useMemo(
    () => [
      ...Map.groupBy(
        series.filter(({ times }) => times.length > 1),
        ({ name }) => name,
      ),
    ],
    [series],
  );
  if (drawn.length === 0) return <p>{texts.health.wait}</p>;
  return (
    <Suspense fallback={<p>{texts.list.loading}</p>}>
      <div className="charts">
        {drawn.map(([name, lines]) => (
          <ChartView key={name} series={lines} />
        ))}
      </div>
    </Suspense>
  );
}
