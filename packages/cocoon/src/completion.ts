/** Completion scripts: the words of the command tree, two levels deep, which is all there is. */
import { Fault } from "@cocoon/core";
import type { Command } from "commander";

export function completionScript(shell: string, program: Command): string {
  const groups = new Map(
    program.commands.map((group) => [group.name(), group.commands.map((each) => each.name())]),
  );
  const tops = [...groups.keys()].join(" ");
  const cases = [...groups].filter(([, names]) => names.length > 0);
  switch (shell) {
    case "bash":
      return `_cocoon() {
  local words="${tops}"
  case "\${COMP_WORDS[1]}" in
${cases.map(([group, names]) => `    ${group}) [ "$COMP_CWORD" -ge 2 ] && words="${names.join(" ")}" ;;`).join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _cocoon cocoon
`;
    case "zsh":
      return `#compdef cocoon
if (( CURRENT == 2 )); then compadd ${tops}; else
case "\${words[2]}" in
${cases.map(([group, names]) => `  ${group}) compadd ${names.join(" ")} ;;`).join("\n")}
esac
fi
`;
    case "fish":
      return [
        `complete -c cocoon -f -n __fish_use_subcommand -a "${tops}"`,
        ...cases.map(
          ([group, names]) =>
            `complete -c cocoon -f -n "__fish_seen_subcommand_from ${group}" -a "${names.join(" ")}"`,
        ),
        "",
      ].join("\n");
    case "powershell":
      return `Register-ArgumentCompleter -Native -CommandName cocoon -ScriptBlock {
  param($word, $ast)
  $groups = @{ ${cases.map(([group, names]) => `'${group}' = '${names.join(" ")}'`).join("; ")} }
  $first = $ast.CommandElements[1].Value
  $words = if ($ast.CommandElements.Count -gt 2 -and $groups[$first]) { $groups[$first] } else { '${tops}' }
  $words.Split(' ') | Where-Object { $_ -like "$word*" }
}
`;
    default:
      throw new Fault("invalid", `unknown shell "${shell}": bash, zsh, fish or powershell`);
  }
}
