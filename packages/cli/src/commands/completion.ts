/** completion: a script for the shell. It calls the program itself for what may come next, so it never goes out of date. */
import { Fault } from "@cocoon/core/fault";
import type { CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "completion <shell>",
  summary: "completions for bash, zsh or fish",
  description:
    "Prints a script that completes commands, options and the names of sets, machines, nodes and parts in bash, zsh or fish. For `kubectl cocoon`, kubectl's own completion asks kubectl_complete-cocoon, which comes with this tool.",
  examples: [
    "source <(cocoonctl completion bash)",
    "cocoonctl completion zsh > ~/.zfunc/_cocoonctl",
    "cocoonctl completion fish > ~/.config/fish/completions/cocoonctl.fish",
  ],
  run: completion,
};

const bash = `# bash completion for cocoonctl; load it with: source <(cocoonctl completion bash)
_cocoonctl() {
  local IFS=$'\\n'
  COMPREPLY=($(cocoonctl __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _cocoonctl cocoonctl
`;

const zsh = `#compdef cocoonctl
# zsh completion for cocoonctl; put it as _cocoonctl into a directory of $fpath, or: source <(cocoonctl completion zsh)
_cocoonctl() {
  local -a found
  found=("\${(@f)$(cocoonctl __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${found[1]}" ]]; then
    compadd -- "\${found[@]}"
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" == "_cocoonctl" ]]; then
  _cocoonctl "$@"
else
  compdef _cocoonctl cocoonctl
fi
`;

const fish = `# fish completion for cocoonctl; put it into ~/.config/fish/completions/cocoonctl.fish
function __cocoonctl_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -e words[1]
  cocoonctl __complete -- $words "$current" 2>/dev/null
end
complete -c cocoonctl -f -a '(__cocoonctl_complete)'
complete -c cocoonctl -l filename -l kubeconfig -l identity -r -F
`;

const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };

export function completionScript(shell: string): string {
  const script = scripts[shell];
  if (script !== undefined) return script;
  throw new Fault(
    "badRequest",
    `there are no completions for "${shell}"; use ${Object.keys(scripts).join(", ")}`,
  );
}

export function completion(shell: string): void {
  process.stdout.write(completionScript(shell));
}
