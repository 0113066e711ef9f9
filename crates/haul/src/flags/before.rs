//! Options that stand before the command: `haul --endpoint-url URL ls s3://`.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The same command line with its command first, if one can be told. Otherwise it is left as it is, for clap to say why.
pub fn command_first(argv: &[OsString], definitions: &Command) -> Vec<OsString> {
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-") && word != "-" && word != "--";
    if !argv.get(1).is_some_and(is_option) {
        return argv.to_vec();
    }
    let candidates = (2..argv.len()).filter_map(|at| Some((at, definitions.find_subcommand(argv[at].to_str()?)?)));
    let own = |command: &Command, arg: &dyn Fn(&Arg) -> bool| {
        definitions.get_arguments().chain(command.get_arguments()).find(|a| arg(a)).cloned()
    };
    let of_any = |_: &Command, arg: &dyn Fn(&Arg) -> bool| {
        definitions.get_arguments().chain(definitions.get_subcommands().flat_map(every_argument)).find(|a| arg(a)).cloned()
    };
    // The command whose own options these are; then one that will say that it has no such option.
    let found = candidates.clone().find(|(at, command)| {
        let inner = argv.get(at + 1).and_then(|word| command.find_subcommand(word.to_str()?));
        leads_to(argv, *at, &|arg| own(inner.unwrap_or(command), arg))
    });
    let found = found.or_else(|| candidates.clone().find(|(at, command)| leads_to(argv, *at, &|arg| of_any(command, arg))));
    let Some((at, mut command)) = found else { return argv.to_vec() };
    let mut end = at + 1;
    while let Some(inner) = argv.get(end).and_then(|word| command.find_subcommand(word.to_str()?)) {
        (command, end) = (inner, end + 1);
    }
    [&argv[..1], &argv[at..end], &argv[1..at], &argv[end..]].concat()
}

fn every_argument(command: &Command) -> Box<dyn Iterator<Item = &Arg> + '_> {
    Box::new(command.get_arguments().chain(command.get_subcommands().flat_map(every_argument)))
}

/// Whether an option is the one that was written.
type Matches<'a> = dyn Fn(&Arg) -> bool + 'a;

/// Whether all words from the first to `at` are options that `find` knows, with their values.
fn leads_to(argv: &[OsString], at: usize, find: &dyn Fn(&Matches<'_>) -> Option<Arg>) -> bool {
    let takes_value = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    let mut next = 1;
    while next < at {
        let text = argv[next].to_string_lossy();
        next += 1;
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or(long);
            let Some(arg) = find(&|a| a.get_long() == Some(name) || a.get_all_aliases().is_some_and(|all| all.contains(&name))) else {
                return false;
            };
            next += usize::from(takes_value(&arg) && !long.contains('='));
        } else if let Some(letters) = text.strip_prefix('-') {
            let mut letters = letters.chars();
            while let Some(letter) = letters.next() {
                let has = |a: &Arg| a.get_short() == Some(letter) || a.get_all_short_aliases().is_some_and(|all| all.contains(&letter));
                let Some(arg) = find(&has) else { return false };
                if takes_value(&arg) {
                    next += usize::from(letters.as_str().is_empty());
                    break;
                }
            }
        } else {
            return false;
        }
    }
    next == at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let argv: Vec<OsString> = ["haul"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        let words = command_first(&argv, &crate::flags::definitions());
        words[1..].iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_before_the_command_go_behind_it() {
        for (line, expected) in [
            ("--endpoint-url http://h ls s3://", "ls --endpoint-url http://h s3://"),
            ("--endpoint-url=http://h --json cp a b", "cp --endpoint-url=http://h --json a b"),
            ("--json ls", "ls --json"),
            ("-avn --delete sync a b", "sync -avn --delete a b"),
            ("-J gate cp a h:b", "cp -J gate a h:b"),
            ("-Jgate -j4 cp a h:b", "cp -Jgate -j4 a h:b"),
            ("-L 2 tree a", "tree -L 2 a"),
            ("--log cp ls", "ls --log cp"),
            ("--log cp cp cp", "cp --log cp cp"),
            ("--port 22 jobs clean 3f", "jobs clean --port 22 3f"),
            ("--jump g bench net h", "bench net --jump g h"),
            ("--numworkers 3 cp a b", "cp --numworkers 3 a b"),
            // A command that has no such option says so itself.
            ("--delete cp a b", "cp --delete a b"),
            // Nothing is known of these.
            ("--nonsense cp a b", "--nonsense cp a b"),
            ("-- cp a", "-- cp a"),
            ("--help", "--help"),
            ("cp --json a b", "cp --json a b"),
            ("frob --json", "frob --json"),
        ] {
            assert_eq!(moved(line), expected, "{line}");
        }
    }
}
