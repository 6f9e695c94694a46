/** Our programs as processes. */
import { type Dashboard } from "./panel.ts";

/** What every part exports about itself. */
export const processes: Dashboard = {
  file: "processes",
  title: "Cocoon: processes",
  panels: [
    {
      title: "Memory of our programs",
      unit: "bytes",
      series: { "{{job}} {{instance}}": "process_resident_memory_bytes and on (instance) cocoon_build_info" },
    },
    {
      title: "CPU of our programs",
      unit: "short",
      series: {
        "{{job}} {{instance}}":
          "rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) cocoon_build_info",
      },
    },
    {
      title: "Event loop lag",
      unit: "s",
      series: {
        "{{job}} {{instance}}": "nodejs_eventloop_lag_seconds and on (instance) cocoon_build_info",
      },
    },
    {
      title: "Builds",
      unit: "short",
      series: {
        "{{program}} {{version}} {{revision}}": "count by (program, version, revision) (cocoon_build_info)",
      },
    },
  ],
};
