//! Scripts that complete haul's command lines in shells: made from the definitions, and for bash, zsh and fish with a function
//! that asks `haul complete` for hosts, buckets and jobs.

use clap_complete::Shell;

use crate::flags::definitions;

/// In front of bash's own way with files, which is taken up here where places are offered: a word that ends in a colon or a slash is
/// a place, and so may be a file.
const BASH: &str = r#"
_haul_words() {
    _haul "$@"
    [[ "$2" == -* || "${BASH_VERSINFO[0]}" -lt 4 ]] && return 0
    local line="${COMP_LINE:0:COMP_POINT}" current="" head="" word
    local -a words more
    read -ra words <<< "$line"
    if [[ "$line" != *[[:space:]] ]]; then
        current="${words[${#words[@]}-1]}"
        unset "words[${#words[@]}-1]"
    fi
    mapfile -t more < <("$1" complete -- "$current" "${words[@]:1}" 2>/dev/null)
    [[ ${#more[@]} -eq 0 ]] && return 0
    COMPREPLY=()
    # What stands before a colon is a word of its own to bash.
    [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]] && head="${current%"${current##*:}"}"
    for word in "${more[@]}"; do
        word="${word%%$'\t'*}"
        [[ "$word" == *[:/@] ]] && compopt -o nospace
        COMPREPLY+=("${word#"$head"}")
    done
    if [[ "${COMPREPLY[0]}" == *[:/@] ]]; then
        while IFS= read -r word; do
            [[ -d "$word" ]] && word+=/
            printf -v word '%q' "$word"
            COMPREPLY+=("$word")
        done < <(compgen -f -- "$current")
    fi
    return 0
}
"#;

const ZSH: &str = r#"
(( $+functions[_haul_words] )) ||
_haul_words() {
    local -a all more places others about
    local line word i
    all=(${(z)LBUFFER})
    [[ $LBUFFER == *[[:space:]] ]] && all+=('')
    for (( i = $#all; i > 0; i-- )); do
        [[ $all[i] == (';'|'&&'|'||'|'|') ]] && { shift $i all; break }
    done
    more=("${(@f)$("${(Q)all[1]}" complete -- "${(Q)all[-1]}" "${(@Q)all[2,-2]}" 2>/dev/null)}")
    for line in $more; do
        word=${line%%$'\t'*}
        [[ -z $word ]] && continue
        if [[ $word == *[:/@] ]]; then
            places+=($word)
        else
            others+=($word)
            about+=("$word  -- ${line#*$'\t'}")
        fi
    done
    (( $#others )) && compadd -l -d about -a others
    (( $#places )) && compadd -S '' -a places
    if [[ $@[-1] == files ]]; then
        _files
    elif (( ! $#places && ! $#others )); then
        _default
    fi
}
"#;

const FISH: &str = r#"
function __fish_haul_words
    set -l current (commandline -ct)
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    $program complete -- "$current" $words 2>/dev/null
end

complete -c haul -n 'not string match -q -- "-*" (commandline -ct)' -a '(__fish_haul_words)'
complete -c haul -n '__fish_haul_using_subcommand jobs why doctor' -f
"#;

/// The script for a shell.
pub fn script(shell: Shell) -> Vec<u8> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut shown(definitions()), "haul", &mut out);
    let text = String::from_utf8_lossy(&out).into_owned();
    match shell {
        Shell::Bash => bash(&text),
        Shell::Zsh => zsh(&text),
        Shell::Fish => fish(&text),
        _ => text,
    }
    .into_bytes()
}

fn bash(text: &str) -> String {
    let at = text.rfind("\nif [[ \"${BASH_VERSINFO").unwrap_or(text.len());
    [&text[..at], BASH, &text[at..].replace("complete -F _haul ", "complete -F _haul_words ")].concat()
}

/// The options whose values are known ask for them; operands do so by the rule behind them all.
fn fish(text: &str) -> String {
    let mut script = String::with_capacity(text.len() + FISH.len());
    for line in text.lines() {
        script.push_str(line);
        if [" -l profile ", " -l jump "].iter().any(|option| line.contains(option)) {
            script.push_str(" -f -a '(__fish_haul_words)'");
        }
        script.push('\n');
    }
    script + FISH
}

/// Operands, and the options whose values are known, ask for their words.
fn zsh(text: &str) -> String {
    const OPTIONS: [&str; 4] = ["'--profile=", "'--jump=", "'-J+", "'*--jump="];
    let at = text.find("\n_haul() {").unwrap_or(0);
    let mut script = [&text[..at], ZSH].concat();
    for line in text[at..].lines() {
        let operand = ["'*::", "'::", "':"].iter().any(|start| line.starts_with(start));
        let known = operand || OPTIONS.iter().any(|start| line.starts_with(start));
        let line = match known {
            true => line
                .replace(":_files' ", ":_haul_words files' ")
                .replace(":_default' ", ":_haul_words' ")
                .replace(":_hosts' ", ":_haul_words' "),
            false => line.to_string(),
        };
        script.push_str(&line);
        script.push('\n');
    }
    script
}

/// The definitions without hidden commands, which the makers of completions would offer.
fn shown(command: clap::Command) -> clap::Command {
    let visible: Vec<clap::Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().map(shown).collect();
    let about = command.get_about().cloned().unwrap_or_default();
    clap::Command::new(command.get_name().to_string())
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(command.get_name() != "haul")
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned())
        .subcommands(visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_has_completions() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let text = String::from_utf8_lossy(&script(shell)).into_owned();
            assert!(text.contains("delete-excluded") && text.contains("older-than"), "{shell}");
            assert!(!text.contains("flags-table") && !text.contains("Serve another haul"), "{shell} offers hidden commands");
        }
        for (shell, part) in [
            (Shell::Bash, "complete -F _haul_words -o nosort"),
            (Shell::Zsh, "'*::paths -- Directories, files, buckets or keys:_haul_words files' \\"),
            (Shell::Zsh, ":job -- The job'\\''s ID, or a prefix of it:_haul_words' \\"),
            (Shell::Fish, "(__fish_haul_words)"),
        ] {
            assert!(String::from_utf8_lossy(&script(shell)).contains(part), "{shell}: {part}");
        }
    }
}
