//! The one table of all options, made from their definitions: docs/flags.md.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The whole of docs/flags.md.
pub fn markdown() -> String {
    let mut definitions = super::definitions();
    definitions.build();
    let mut out = String::from(
        "# Options\n\nMade by `haul flags-table`; do not edit. rsync's letters mean here what they mean there; where a letter means \
         something else in another command, it has a row of its own.\n\nOptions that switch something on or off \
         (`-a`, `-p`, `--no-perms`, `--preserve=LIST`) are applied in the order in which they are written. \
         Filters keep their order too: the first that matches decides.\n",
    );
    // (heading, spelling, help) -> commands, in the order of the first appearance.
    let mut rows: Vec<(String, String, String)> = Vec::new();
    let mut commands: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut all = Vec::new();
    collect(&definitions, &mut all);
    for (command, arg) in &all {
        let heading = arg.get_help_heading().unwrap_or("Of one command").to_string();
        let row = (heading, spelling(arg), help(arg));
        let at = rows.iter().position(|r| *r == row).unwrap_or_else(|| {
            rows.push(row);
            rows.len() - 1
        });
        commands.entry(at).or_default().push(command.clone());
    }
    let mut headings: Vec<&str> = Vec::new();
    for (heading, ..) in &rows {
        if !headings.contains(&heading.as_str()) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(out, "\n## {heading}\n\n| option | in | what it does |\n|---|---|---|\n");
        for (at, (_, spelling, help)) in rows.iter().enumerate().filter(|(_, row)| row.0 == heading) {
            let _ = writeln!(out, "| {spelling} | {} | {help} |", commands[&at].join(" "));
        }
    }
    out
}

/// Every option of every command that is shown, with the command's name; those of all commands once, as `(all)`.
pub fn collect<'a>(definitions: &'a clap::Command, out: &mut Vec<(String, &'a clap::Arg)>) {
    for command in definitions.get_subcommands().filter(|c| !c.is_hide_set()) {
        options(command, command.get_name(), out);
        for inner in command.get_subcommands() {
            options(inner, &format!("{}&nbsp;{}", command.get_name(), inner.get_name()), out);
        }
    }
    out.extend(definitions.get_arguments().filter(|a| !a.is_positional()).map(|a| ("(all)".to_string(), a)));
}

fn options<'a>(command: &'a clap::Command, name: &str, out: &mut Vec<(String, &'a clap::Arg)>) {
    out.extend(
        command.get_arguments().filter(|a| !a.is_positional() && !a.is_global_set() && !a.is_hide_set()).map(|a| (name.to_string(), a)),
    );
}

fn spelling(arg: &clap::Arg) -> String {
    let short = arg.get_short().map(|c| format!("-{c}"));
    let long = arg.get_long().map(|l| format!("--{l}"));
    let more_short = arg.get_visible_short_aliases().unwrap_or_default().into_iter().map(|c| format!("-{c}"));
    let more_long = arg.get_visible_aliases().unwrap_or_default().into_iter().map(|l| format!("--{l}"));
    let mut all: Vec<String> = short.into_iter().chain(more_short).chain(long).chain(more_long).collect();
    if arg.get_action().takes_values() {
        let names: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(|n| n.as_str()).collect();
        let value = match (arg.is_require_equals_set(), names.join(" ")) {
            (true, value) => format!("[={value}]"),
            (false, value) => format!(" {value}"),
        };
        if let Some(last) = all.last_mut() {
            last.push_str(&value);
        }
    }
    all.iter().map(|s| format!("`{}`", s.replace('|', "\\|"))).collect::<Vec<_>>().join(" ")
}

fn help(arg: &clap::Arg) -> String {
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}
