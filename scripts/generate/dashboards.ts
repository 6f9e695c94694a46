/** deploy/monitoring/dashboards/: Grafana dashboards, one table of panels each. */
import { admission } from "./dashboards/admission.ts";
import { machines } from "./dashboards/machines.ts";
import { operator } from "./dashboards/operator.ts";
import type { Dashboard } from "./dashboards/panel.ts";
import { processes } from "./dashboards/processes.ts";
import { registry } from "./dashboards/registry.ts";
import type { Generator } from "./generator.ts";

export const dashboards: Generator = {
  name: "dashboards",
  owns: ["deploy/monitoring/dashboards/*.json"],
  generate: () =>
    [machines, operator, admission, registry, processes].map((dashboard) => ({
      path: `deploy/monitoring/dashboards/${dashboard.file}.json`,
      content: `${JSON.stringify(grafana(dashboard), null, 2)}\n`,
    })),
};

const width = 12;
const height = 8;
const source = { type: "prometheus", uid: "${datasource}" };

function grafana({ file, title, panels }: Dashboard): object {
  return {
    uid: `cocoon-${file}`,
    title,
    tags: ["cocoon"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    templating: {
      list: [{ name: "datasource", label: "Data source", type: "datasource", query: "prometheus" }],
    },
    panels: panels.map((panel, index) => ({
      id: index + 1,
      type: "timeseries",
      title: panel.title,
      datasource: source,
      gridPos: { x: (index % 2) * width, y: Math.floor(index / 2) * height, w: width, h: height },
      fieldConfig: { defaults: { unit: panel.unit, min: 0 }, overrides: [] },
      options: {
        legend: { displayMode: "list", placement: "bottom" },
        tooltip: { mode: "multi", sort: "desc" },
      },
      targets: Object.entries(panel.series).map(([legend, expr], series) => ({
        refId: String.fromCodePoint(65 + series),
        datasource: source,
        expr,
        legendFormat: legend,
      })),
    })),
  };
}
