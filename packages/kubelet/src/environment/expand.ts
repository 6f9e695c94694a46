/** `$(NAME)` in a value, as Kubernetes expands it: `$$` is a literal dollar, what is unknown stays as it is. */
export function expandReferences(text: string, lookUp: (name: string) => string | undefined): string {
  return text.replaceAll(/\$(\$|\(([^)]*)\))/g, (whole, kind: string, name: string | undefined) => {
    if (kind === "$") return "$";
    return lookUp(name ?? "") ?? whole;
  });
}

/** Names that a process can have in its environment; Kubernetes allows every printable character but `=`. */
export function isEnvironmentName(name: string): boolean {
  return /^[!-<>-~]+$/.test(name);
}
