/** `epoch ls`, `inspect`, `tag`, `rm`: what is there, and what it is called. */
import { Fault } from "@cocoon/core";
import { readArtifactKind, readSnapshot, retag } from "@cocoon/oci";
import type { Command } from "commander";
import type { Run, Session } from "../session.ts";

export function addLookCommands(program: Command, run: Run): void {
  program
    .command("ls")
    .alias("list")
    .argument("[name]", "repository")
    .description("list repositories, or the tags of one")
    .action(run(list));
  program
    .command("inspect")
    .argument("<ref>", "name[:tag]")
    .description("show what a tag names")
    .action(run(inspect));
  program
    .command("tag")
    .argument("<from>", "name:old or name@digest")
    .argument("<to>", "name:new")
    .description("give an artifact another tag")
    .action(run(tag));
  program
    .command("rm")
    .argument("<ref>", "name[:tag], or name@digest for the artifact with every tag on it")
    .description("delete a tag")
    .action(run(remove));
}

async function list(session: Session, [name]: readonly string[]): Promise<void> {
  const { signal, output } = session;
  const registry = await session.server();
  if (name === undefined) {
    const repositories = (await Array.fromAsync(registry.repositories({ signal }))).sort();
    if (repositories.length === 0) output.note("No repositories in registry");
    output.result(repositories, repositories);
    return;
  }
  const tags = (await Array.fromAsync(registry.repository(name).tags({ signal }))).sort();
  if (tags.length === 0) output.note(`No tags found for ${name}`);
  output.result(
    tags.map((each) => `${name}:${each}`),
    tags,
  );
}

async function inspect(session: Session, [text = ""]: readonly string[]): Promise<void> {
  const { repository, reference, text: shown } = await session.target(text);
  const { signal, output } = session;
  const { bytes, digest, mediaType } = await repository.getManifest(reference, { signal });
  const kind = readArtifactKind(bytes);
  const manifest: unknown = JSON.parse(bytes.toString("utf8"));
  output.note(`${shown} is a ${kind} (${mediaType})\n${digest}`);
  if (!output.isJson) {
    output.result(JSON.stringify(manifest, null, 2), manifest);
    return;
  }
  const config =
    kind === "snapshot" ? { config: (await readSnapshot(repository, digest, { signal })).config } : {};
  output.result([], { reference: shown, digest, kind, mediaType, manifest, ...config });
}

async function tag(session: Session, [from = "", to = ""]: readonly string[]): Promise<void> {
  const [source, target] = [await session.target(from), await session.target(to)];
  if (
    source.repository.name !== target.repository.name ||
    source.repository.origin !== target.repository.origin
  )
    throw new Fault("badRequest", "a tag can only be given inside one repository");
  const { repository } = source;
  const digest = await retag({
    repository,
    from: source.reference,
    to: target.reference,
    signal: session.signal,
  });
  session.output.result(`Tagged ${source.text} -> ${target.text}`, {
    from: source.text,
    to: target.text,
    digest,
  });
}

async function remove(session: Session, [text = ""]: readonly string[]): Promise<void> {
  const { repository, reference, text: shown } = await session.target(text);
  const existed = await repository.deleteManifest(reference, { signal: session.signal });
  session.output.result(existed ? `Removed ${shown}` : `${shown} was not there`, {
    reference: shown,
    existed,
  });
}
