/**
 * webhook: cocoon-webhook, the admission of machines. `startWebhook` joins a cluster, a certificate and the rules; the
 * rules are in `handlers/` (what is let in and how it is changed), `store/` (who holds which machine name, agreed on by
 * all replicas through ConfigMaps) and `nodes/` (where a machine runs).
 *
 * It keeps nothing of its own: pods and ConfigMaps are the only state, so any replica may die and start at any time.
 */
export { startWebhook, type WebhookOptions, type WebhookRules } from "./start.ts";
export { noSnapshots } from "./snapshots.ts";
