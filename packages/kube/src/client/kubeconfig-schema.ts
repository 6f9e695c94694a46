/** The fields of a kubeconfig that are used here, checked before anything is done with them. Others are ignored. */
import * as z from "zod";

const text = z.string("must be a text");

const execSchema = z.looseObject({
  apiVersion: text.optional(),
  command: text.min(1, "must name a program"),
  args: z.array(text).nullish(),
  env: z.array(z.object({ name: text, value: text })).nullish(),
  installHint: text.nullish(),
  provideClusterInfo: z.boolean().nullish(),
  interactiveMode: z.enum(["Never", "IfAvailable", "Always"]).nullish(),
});

const userSchema = z.looseObject({
  token: text.nullish(),
  tokenFile: text.nullish(),
  username: text.nullish(),
  password: text.nullish(),
  as: text.nullish(),
  "as-uid": text.nullish(),
  "as-groups": z.array(text).nullish(),
  "as-user-extra": z.record(text, z.array(text)).nullish(),
  "client-certificate": text.nullish(),
  "client-certificate-data": text.nullish(),
  "client-key": text.nullish(),
  "client-key-data": text.nullish(),
  "auth-provider": z.looseObject({ name: text }).nullish(),
  exec: execSchema.nullish(),
});

const clusterSchema = z.looseObject({
  server: z.string("is missing").min(1, "is missing"),
  "certificate-authority": text.nullish(),
  "certificate-authority-data": text.nullish(),
  "insecure-skip-tls-verify": z.boolean().nullish(),
  "tls-server-name": text.nullish(),
  "proxy-url": text.nullish(),
});

const contextSchema = z.looseObject({
  cluster: z.string("is missing").min(1, "is missing"),
  user: text.nullish(),
  namespace: text.nullish(),
});

const name = z.string("is missing").min(1, "is missing");

const listOf = <Item extends z.ZodType>(item: Item) =>
  z
    .array(item, "must be a list")
    .nullish()
    .transform((list) => list ?? []);

export const kubeconfigSchema = z.looseObject(
  {
    "current-context": text.nullish(),
    clusters: listOf(z.looseObject({ name, cluster: clusterSchema })),
    contexts: listOf(z.looseObject({ name, context: contextSchema })),
    users: listOf(z.looseObject({ name, user: userSchema.nullish() })),
  },
  "must hold a mapping with clusters, users and contexts",
);

export type RawKubeconfig = z.infer<typeof kubeconfigSchema>;
export type RawUser = z.infer<typeof userSchema>;
export type ExecPlugin = z.infer<typeof execSchema>;
