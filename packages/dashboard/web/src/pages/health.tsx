/** Parts, whether they answer, and the last hour of their own metrics. */
import { lazy, Suspense, useEffect, useState, type ReactNode } from "react";
import type { HealthData } from "../../../src/shared/rows.ts";
import { session } from "../api/client.ts";
import { Badge, ErrorBox } from "../parts/small.tsx";
import { texts } from "../texts.ts";

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
  const drawn = health.series.filter(({ times }) => times.length > 1);
  if (health.parts.length === 0) return <p>{texts.health.noTargets}</p>;
  return (
    <>
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
      {drawn.length === 0 ? <p>{texts.health.wait}</p> : null}
      <Suspense fallback={<p>{texts.list.loading}</p>}>
        <div className="charts">
          {drawn.map((series) => (
            <ChartView key={`${series.part} ${series.name}`} series={series} />
          ))}
        </div>
      </Suspense>
    </>
  );
}
