/** The config of a container image: what it runs, and on what. */
import { Fault } from "@cocoon/core";
import * as z from "zod";
import type { ContainerProgram } from "../image-record.ts";

const words = z.array(z.string()).nullish();

const configSchema = z.object({
  architecture: z.string().default("amd64"),
  os: z.string().default("linux"),
  config: z
    .object({
      Entrypoint: words,
      Cmd: words,
      Env: words,
      User: z.string().nullish(),
      WorkingDir: z.string().nullish(),
    })
    .nullish(),
});

export function readProgram(config: unknown): ContainerProgram {
  const parsed = configSchema.safeParse(config);
  if (!parsed.success) {
    throw new Fault("invalid", "the image's config is not one of a container image", { cause: parsed.error });
  }
  const { architecture, os } = parsed.data;
  if (os !== "linux" || architecture !== "amd64") {
    throw new Fault(
      "preconditionFailed",
      `the image is for ${os}/${architecture}, this host runs linux/amd64`,
    );
  }
  const { Entrypoint, Cmd, Env, User, WorkingDir } = parsed.data.config ?? {};
  return {
    argv: [...(Entrypoint ?? []), ...(Cmd ?? [])],
    env: Env ?? [],
    user: User ?? "",
    workingDirectory: WorkingDir ?? "",
  };
}
