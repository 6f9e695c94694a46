/** Liveness, and readiness: the latter writes to and reads from the storage, at most once in some seconds. */
import { getErrorMessage } from "@cocoon/core";
import type { Handler, RouteTable } from "../http/handler.ts";

const text = { "content-type": "text/plain; charset=utf-8" };

const alive: Handler<"health"> = (exchange) => exchange.send(200, text, "ok");

const ready: Handler<"ready"> = async (exchange, _route, { storageHealth, log }) => {
  try {
    await storageHealth.check();
    exchange.send(200, text, "ok");
  } catch (error) {
    log.warn({ error: getErrorMessage(error) }, "storage is not ready");
    exchange.send(503, text, "storage is not ready");
  }
};

export const healthRoutes = {
  health: { GET: alive },
  ready: { GET: ready },
} satisfies Partial<RouteTable>;
