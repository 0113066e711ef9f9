//! Which options a help shows: `--help` all that concern the command, `-h` those that most people need.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, Args, Command};
use haul_s3::S3;
use haul_ssh::ssh::SSH;

use super::connect::{AskArgs, ids_of};
use super::global::GlobalArgs;
use super::keep::KeepArgs;
use super::select::SelectArgs;
use super::speed::SpeedArgs;

/// Commands whose addresses are all in buckets: nothing is reached by ssh.
const BUCKETS_ONLY: [&str; 8] = ["mb", "rb", "head", "presign", "tag", "acl", "restore", "bucket-version"];

/// Commands whose arguments are all hosts.
const HOSTS_ONLY: [&str; 2] = ["doctor", "net"];

/// Commands with `-h` for sizes that do without operands: with them it never is the short help.
pub(super) const COPIES: [&str; 3] = ["cp", "sync", "mv"];

/// The ids that `-h` shows of commands that have too many options of their own.
const SHORT: [(&str, &[&str]); 2] = [
    (
        "copies",
        &[
            "archive",
            "exclude",
            "files_from",
            "checksum",
            "update",
            "ignore_existing",
            "dry_run",
            "verify",
            "mkpath",
            "backup_dir",
            "link_dest",
            "remove_source_files",
            "delete",
            "deadline",
            "workers",
            "bwlimit",
            "compress",
            "partial_progress",
        ],
    ),
    ("files", &["paths", "operation", "duration", "workers", "out"]),
];

/// The ids that `-h` shows of the groups that many commands share.
const SHORT_OF_GROUPS: [&str; 9] = ["exclude", "workers", "identity", "jump", "endpoint_url", "profile", "verbose", "quiet", "json"];

pub(super) fn ids<A: Args>() -> BTreeSet<String> {
    A::augment_args(Command::new("group")).get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

/// Hides the options of a group that cannot concern a command.
pub(super) fn hide_foreign(command: Command) -> Command {
    let foreign: BTreeSet<String> = match command.get_name() {
        name if BUCKETS_ONLY.contains(&name) => ids_of(|provider| !provider.schemes().contains(&S3)),
        name if HOSTS_ONLY.contains(&name) => ids_of(|provider| !provider.schemes().contains(&SSH)),
        _ => return command,
    };
    foreign.into_iter().fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)))
}

/// `-h` prints the short help wherever it means nothing else.
pub(super) fn add_short_help(command: Command) -> Command {
    if command.get_arguments().any(|arg| arg.get_short() == Some('h')) {
        return command;
    }
    let help = "Print the most common options";
    command.arg(Arg::new("short_help").short('h').action(ArgAction::HelpShort).help(help).help_heading("Output"))
}

/// The Expires header by the name that other tools have for it, but where `--expires` is the lifetime of an address.
pub(super) fn accept_expires(command: Command) -> Command {
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    if has("expires_at") && !has("expires") {
        return command.mut_arg("expires_at", |arg| arg.visible_alias("expires"));
    }
    command
}

/// Behind the options that a command has of its own.
const LAST: usize = 1000;

/// An option with the main clause of its help alone, and without its other names.
fn brief(arg: Arg) -> Arg {
    let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let end = ["; ", " ("].iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    let others: Vec<String> = arg.get_visible_aliases().unwrap_or_default().into_iter().map(str::to_string).collect();
    arg.help(text[..end].to_string()).visible_alias(None).aliases(others)
}

/// The definitions as `-h` shows them: one list of the options that are used most.
pub(super) fn short(command: Command) -> Command {
    let groups: BTreeSet<String> =
        [ids::<AskArgs>(), ids::<GlobalArgs>(), ids::<KeepArgs>(), ids::<SelectArgs>(), ids::<SpeedArgs>()].into_iter().flatten().collect();
    let chosen = |command: &Command, arg: &Arg| {
        let id = arg.get_id().as_str();
        if arg.is_positional() {
            return true;
        }
        let name = if COPIES.contains(&command.get_name()) { "copies" } else { command.get_name() };
        match SHORT.iter().find(|(of, _)| *of == name) {
            _ if SHORT_OF_GROUPS.contains(&id) && groups.contains(id) => true,
            Some((_, list)) => list.contains(&id),
            None => !groups.contains(id) && id != "short_help",
        }
    };
    fn each(command: Command, chosen: &impl Fn(&Command, &Arg) -> bool, path: &str) -> Command {
        let ids: Vec<(String, bool)> = command.get_arguments().map(|arg| (arg.get_id().to_string(), chosen(&command, arg))).collect();
        let inner: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_string()).collect();
        let command = ids.into_iter().fold(command, |command, (id, shown)| {
            command.mut_arg(id, |arg| {
                let arg = if arg.is_positional() { arg } else { brief(arg.help_heading(None::<&str>)) };
                let arg = if SHORT_OF_GROUPS.contains(&arg.get_id().as_str()) { arg.display_order(LAST) } else { arg };
                if shown { arg } else { arg.hide_short_help(true) }
            })
        });
        let after = format!("`{path} --help` lists all options, `haul help` the topics (addresses, filters, exit-codes ...).");
        let command = command.after_help(after);
        inner.into_iter().fold(command, |command, name| {
            let path = format!("{path} {name}");
            command.mut_subcommand(name, |inner| each(inner, chosen, &path))
        })
    }
    each(command, &chosen, "haul")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{definitions, short_help};

    fn asked(words: &str) -> String {
        let argv: Vec<std::ffi::OsString> = ["haul"].into_iter().chain(words.split_whitespace()).map(Into::into).collect();
        short_help(&argv).plain
    }

    fn every(command: &Command, path: &str, out: &mut Vec<(String, Command)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{path} {}", inner.get_name());
            out.push((path.clone(), inner.clone()));
            every(inner, &path, out);
        }
    }

    #[test]
    fn the_short_help_fits_a_screen_or_nearly() {
        let mut all = Vec::new();
        every(&definitions(), "", &mut all);
        all.push((String::new(), definitions()));
        for (path, command) in all {
            if command.get_arguments().any(|arg| arg.get_id() == "human_readable") && !COPIES.contains(&command.get_name()) {
                continue;
            }
            let text = asked(&format!("{path} --help"));
            assert!(text.contains("Usage: haul") && text.contains("--help` lists all options"), "{path}: {text}");
            // The list of commands has one line for each.
            let most = if path.is_empty() { 52 } else { 48 };
            assert!(text.lines().count() <= most, "{path}: {} lines\n{text}", text.lines().count());
        }
        assert_eq!(asked("cp --help"), asked("cp --numworkers 3 --help"), "other names of options are still understood");
    }

    #[test]
    fn the_chosen_options_exist() {
        let definitions = definitions();
        let mut all = Vec::new();
        every(&definitions, "", &mut all);
        let known: BTreeSet<String> = all
            .iter()
            .flat_map(|(_, command)| command.get_arguments().map(|arg| arg.get_id().to_string()))
            .chain(ids::<GlobalArgs>())
            .collect();
        for id in SHORT.iter().flat_map(|(_, ids)| ids.iter()).chain(&SHORT_OF_GROUPS) {
            assert!(known.contains(*id), "{id}");
        }
        let short = asked("sync --help");
        for option in ["--delete ", "--dry-run", "--archive", "--exclude", "--endpoint-url", "--identity", "-P "] {
            assert!(short.contains(option), "{option}: {short}");
        }
    }

    #[test]
    fn options_that_cannot_concern_a_command_are_not_shown() {
        let page = |name: &str| crate::help::page(Some(name)).expect(name).plain;
        for name in BUCKETS_ONLY {
            assert!(page(name).contains("--endpoint-url") && !page(name).contains("--jump"), "{name}");
        }
        assert!(page("doctor").contains("--jump") && !page("doctor").contains("--endpoint-url"));
        for name in ["demo", "completions", "man", "why", "help", "jobs"] {
            assert!(!page(name).contains("--endpoint-url") && !page(name).contains("--jump"), "{name}");
        }
    }
}
