/** Parts, whether they answer, what is wrong, and the last hour of their own metrics. */
import { lazy, Suspense, useEffect, useMemo, useState, type ReactNode } from "react";
import type { HealthData, SeriesData } from "../../../src/shared/rows.ts";
import { session } from "../api/client.ts";
import { useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Badge, ErrorBox } from "../parts/small.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { texts } from "../texts.ts";
import { listFindings, type Finding } from "./findings.ts";

const ChartView = lazy(async () => ({ default: (await import("../parts/chart.tsx")).ChartView }));

/** As often as the server measures. */
const everyMs = 15_000;

export function HealthPage(): ReactNode {
  const [health, setHealth] = useState<HealthData>();
  const [error, setError] = useState("");
  useEffect(() => {
    const ask = () => {
      session.health().then(
        (answer) => {
          setHealth(answer);
          setError("");
        },
        (failure: unknown) => setError(failure instanceof Error ? failure.message : String(failure)),
      );
    };
    ask();
    const timer = setInterval(ask, everyMs);
    return () => clearInterval(timer);
  }, []);
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
      <h2>{texts.health.parts}</h2>
      <table>
        <tbody>
          {health.parts.map((part) => (
            <tr key={part.name}>
              <th scope="row">{part.name}</th>
              <td>
                <Badge text={part.up ? "ready" : "failed"} /> {part.up ? texts.health.up : texts.health.down}
              </td>
              <td>{part.version}</td>
              <td>{part.error}</td>
            </tr>
          ))}
        </tbody>
      </table>
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
