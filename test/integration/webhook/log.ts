import { createLogger, type Logger } from "@cocoon/core";

export const testLog: Logger = createLogger({
  name: "test",
  level: process.env["TEST_LOG_LEVEL"] ?? "error",
});
