/**
 * dashboard: the web page for sets and machines, and the small server in front of the API server.
 *
 * The server knows no users and has no rights of its own: a browser signs in with a token of the API server, keeps it in an
 * encrypted cookie, and every request goes on with exactly that token. `src/shared` is what server and page agree on; the
 * page itself is in `web/`, bundled by scripts/build/web.ts.
 */
export { dashboardProgram, type DashboardConfig } from "./config.ts";
export { startDashboard, type RunningDashboard } from "./start.ts";
