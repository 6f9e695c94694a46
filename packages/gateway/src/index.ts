/**
 * gateway: cocoon-gateway, sandboxes for the E2B SDKs. `startGateway` joins a cluster and a listener. A sandbox is a CocoonSet of
 * the tenant's namespace (`sandboxes/`); `control/` is the API that creates and lists them, `envd/` what the SDKs send to one of
 * them, `ports/` traffic to programs in it, `tenants/` who may do what, `guest/` the language of the agent.
 *
 * It keeps nothing of its own: any replica may die and start at any time. Processes live in the guests.
 */
export { startGateway, type GatewayOptions, type RunningGateway } from "./start.ts";
export { startSandboxRouter, type RouterOptions } from "./sandbox-router/router.ts";
