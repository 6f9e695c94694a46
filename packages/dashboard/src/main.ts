#!/usr/bin/env node
/** cocoon-dashboard: the web page. Wiring only. */
import {
  aborted,
  createRegistry,
  readListenAddress,
  runMain,
  startHealthServer,
  type MainContext,
} from "@cocoon/core";
import { dashboardProgram } from "./config.ts";
import { startDashboard } from "./start.ts";

await runMain({
  program: dashboardProgram,
  logLevel: (config) => config.logLevel,
  run,
  givesMemoryBack: true,
});

async function run({
  config,
  log,
  signal,
}: MainContext<(typeof dashboardProgram)["options"]>): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const registry = createRegistry("cocoon-dashboard");
  const health = stack.use(
    await startHealthServer({ ...readListenAddress(config.metricsAddr, "METRICS_ADDR"), registry }),
  );
  const dashboard = stack.use(await startDashboard({ config, log, signal }));
  health.addCheck("listener", () => dashboard.server.checkListener({ path: "/", timeoutMs: 2_000 }));
  health.markReady();
  log.info({ url: dashboard.url }, "dashboard is ready");
  await aborted(signal);
  health.markStopping();
}
