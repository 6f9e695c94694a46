/** The map of the installation, from users on the left to the registry on the right. */
import { useEffect, useMemo, useState, type ReactNode } from "react";
import type { HealthData } from "../../../src/shared/rows.ts";
import { kube } from "../api/client.ts";
import { useKind } from "../live/store.ts";
import { buildMap, type MapArea, type MapItem } from "../pages/installation.ts";
import { texts } from "../texts.ts";
import { usePage } from "./context.ts";

export function InstallationMap({ health }: { readonly health: HealthData }): ReactNode {
  const { store } = usePage();
  const nodes = useKind(store, "node").rows;
  const machines = useKind(store, "machine").rows;
  const kubernetes = useKubernetesVersion();
  const areas = useMemo(
    () => buildMap({ health, nodes: [...nodes.values()], machines: [...machines.values()], kubernetes }),
    [health, nodes, machines, kubernetes],
  );
  return (
    <div className="map" role="group" aria-label={texts.map.title}>
      {areas.map((area) => (
        <Area key={area.title} area={area} />
      ))}
    </div>
  );
}

function useKubernetesVersion(): string {
  const [version, setVersion] = useState("");
  useEffect(() => {
    let isCurrent = true;
    kube<{ readonly gitVersion?: string }>("/version").then(
      ({ gitVersion = "" }) => isCurrent && setVersion(gitVersion),
      () => undefined, // the map does without
    );
    return () => {
      isCurrent = false;
    };
  }, []);
  return version;
}

function Area({ area: { title, leads, items } }: { readonly area: MapArea }): ReactNode {
  return (
    <section className="area">
      <h3>{title}</h3>
      <ul>
        {items.map((item) => (
          <Item key={item.name} item={item} />
        ))}
      </ul>
      {leads === "" ? null : <p className="leads">{leads}</p>}
    </section>
  );
}

function Item({ item: { name, tone, facts } }: { readonly item: MapItem }): ReactNode {
  return (
    <li className={`check ${tone}`}>
      <strong>{name}</strong>
      {facts.map((fact) => (
        <span key={fact}>{fact}</span>
      ))}
    </li>
  );
}
