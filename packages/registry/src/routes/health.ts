/** Alive, and ready: the second one really writes to and reads from the storage. */
import { messageOf } from "@cocoon/core";
import type { Handler, Methods } from "../http/handler.ts";

const text = { "content-type": "text/plain; charset=utf-8" };

const alive: Handler<"health"> = (exchange) => exchange.send(200, text, "ok");

const ready: Handler<"ready"> = async (exchange, _route, { storage, log }) => {
  try {
    await storage.check();
    exchange.send(200, text, "ok");
  } catch (error) {
    log.warn({ error: messageOf(error) }, "storage is not ready");
    exchange.send(503, text, "storage is not ready");
  }
};

export const healthRoute: Methods<"health"> = { GET: alive };
export const readyRoute: Methods<"ready"> = { GET: ready };
