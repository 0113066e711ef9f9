//! Hints for command lines that mean something in another tool.
//!
//! `-i` never takes a value here, so `haul sync -i ~/.ssh/key a host:b` has one argument too many. Guessing would copy a
//! private key some day; the hint says which option was meant.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::foreign::{FOREIGN, FOREIGN_COMMANDS};
use crate::units;

/// An option without a value, what a stray value after it looks like, and what was meant.
struct Stray {
    option: &'static str,
    looks: fn(&str) -> bool,
    meant: &'static str,
}

const STRAYS: [Stray; 13] = [
    Stray { option: "-i", looks: is_key, meant: "-i itemizes changes and takes no value; an SSH key is --identity FILE" },
    Stray { option: "-P", looks: is_number, meant: "-P is --partial --progress and takes no value; the SSH port is --port N" },
    Stray {
        option: "-p",
        looks: is_number_or_size,
        meant: "-p preserves permissions and takes no value; the SSH port is --port N, the chunk size --part-size SIZE",
    },
    Stray { option: "-n", looks: is_number, meant: "-n is --dry-run and takes no value; the number of workers is -j N" },
    Stray {
        option: "-c",
        looks: is_number,
        meant: "-c compares by content and takes no value; workers of one file are --concurrency N, workers -j N",
    },
    Stray {
        option: "-c",
        looks: is_cipher,
        meant: "-c compares by content and takes no value; an SSH cipher is --ssh-option Ciphers=NAME",
    },
    Stray { option: "-l", looks: is_number, meant: "-l preserves symlinks and takes no value; the bandwidth limit is --bwlimit RATE" },
    Stray { option: "-r", looks: is_number, meant: "-r takes no value; the number of retries is --retries N" },
    Stray { option: "-v", looks: is_number, meant: "-v takes no value; for more output use -vv" },
    Stray { option: "-o", looks: is_setting, meant: "-o preserves owners and takes no value; an SSH option is --ssh-option KEY=VALUE" },
    Stray { option: "-d", looks: is_number, meant: "-d lists directories only and takes no value; the number of levels is -L N" },
    Stray { option: "--progress", looks: is_interval, meant: "--progress takes its interval with =, as in --progress=60" },
    Stray { option: "--preserve", looks: is_list, meant: "--preserve takes its list with =, as in --preserve=mode,times" },
];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_number_or_size(text: &str) -> bool {
    is_number(text) || units::parse_size(text).is_ok()
}

fn is_interval(text: &str) -> bool {
    units::parse_interval(text).is_ok()
}

fn is_key(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    let usual = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|key| name.starts_with(key));
    usual || name.ends_with(".pem") || text.contains("/.ssh/") || text.starts_with(".ssh/")
}

/// `aes128-ctr`, `chacha20-poly1305@openssh.com`.
fn is_cipher(text: &str) -> bool {
    let first = text.split(',').next().unwrap_or_default();
    ["aes", "chacha20", "3des", "arcfour", "blowfish"].iter().any(|kind| first.starts_with(kind))
        && first.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.@".contains(&b))
}

/// `StrictHostKeyChecking=no`.
fn is_setting(text: &str) -> bool {
    text.split_once('=')
        .is_some_and(|(key, _)| key.starts_with(|c: char| c.is_ascii_uppercase()) && key.bytes().all(|b| b.is_ascii_alphabetic()))
}

fn is_list(text: &str) -> bool {
    const WORDS: [&str; 9] = ["mode", "times", "timestamps", "owner", "ownership", "group", "xattr", "links", "all"];
    text.split(',').all(|word| WORDS.contains(&word))
}

/// A positional argument, and the option right before it if that takes no value.
struct Word<'a> {
    text: &'a OsString,
    after: Option<String>,
}

fn find<'a>(
    definitions: &'a clap::Command,
    command: Option<&'a clap::Command>,
    matches: impl Fn(&clap::Arg) -> bool,
) -> Option<&'a clap::Arg> {
    command.into_iter().chain([definitions]).flat_map(clap::Command::get_arguments).find(|arg| matches(arg))
}

fn wants_value(arg: &clap::Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// Splits a command line into its command and its positional arguments, as clap would, but without ever failing.
fn words<'a>(argv: &'a [OsString], definitions: &clap::Command) -> (Option<String>, Vec<Word<'a>>) {
    let mut command: Option<&clap::Command> = None;
    let mut words = Vec::new();
    let mut before: Option<String> = None;
    let mut rest = argv.iter().skip(1);
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        let after = before.take();
        if text == "--" {
            words.extend(rest.map(|text| Word { text, after: None }));
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or(long);
            let arg =
                find(definitions, command, |a| a.get_long() == Some(name) || a.get_all_aliases().is_some_and(|all| all.contains(&name)));
            let joined = long.contains('=');
            if arg.is_some_and(wants_value) {
                if !joined {
                    rest.next();
                }
            } else if !joined {
                before = Some(text.into_owned());
            }
        } else if text.len() > 1 && text.starts_with('-') {
            let letters: Vec<char> = text[1..].chars().collect();
            for (at, letter) in letters.iter().enumerate() {
                let arg = find(definitions, command, |a| {
                    a.get_short() == Some(*letter) || a.get_all_short_aliases().is_some_and(|all| all.contains(letter))
                });
                if arg.is_some_and(wants_value) {
                    if at + 1 == letters.len() {
                        rest.next();
                    }
                    before = None;
                    break;
                }
                before = Some(format!("-{letter}"));
            }
        } else if command.is_none() && words.is_empty() {
            command = definitions.find_subcommand(text.as_ref());
            if command.is_none() {
                words.push(Word { text: argument, after });
            }
        } else {
            words.push(Word { text: argument, after });
        }
    }
    (command.map(|c| c.get_name().to_string()), words)
}

/// The command that was named, if it is one.
pub fn command_name(argv: &[OsString], definitions: &clap::Command) -> Option<String> {
    words(argv, definitions).0
}

/// The command and its operands among the words behind the program's name.
pub fn operands(line: &[OsString]) -> (Option<String>, Vec<String>) {
    let argv: Vec<OsString> = std::iter::once(OsString::from("haul")).chain(line.iter().cloned()).collect();
    let (command, words) = words(&argv, &super::definitions());
    (command, words.iter().map(|word| word.text.to_string_lossy().into_owned()).collect())
}

/// A value after an option that takes none.
pub fn stray_value(argv: &[OsString], definitions: &clap::Command, exists: &dyn Fn(&Path) -> bool) -> Option<String> {
    let (_, words) = words(argv, definitions);
    let keys = words.iter().filter(|word| is_key(&word.text.to_string_lossy())).count();
    words.iter().find_map(|word| {
        let text = word.text.to_str()?;
        let stray = STRAYS.iter().find(|stray| word.after.as_deref() == Some(stray.option) && (stray.looks)(text))?;
        // A key file is there, of course. With two further addresses it is not one of those to copy, unless it has company.
        let key_too_many = stray.option == "-i" && words.len() >= 3 && keys == 1;
        let hint = format!("'{}' after {}: {}", haul_core::entry::show(word.text.as_bytes()), stray.option, stray.meant);
        (key_too_many || !exists(Path::new(word.text))).then_some(hint)
    })
}

/// What to write in place of a command that haul does not have.
pub fn foreign_command(error: &clap::Error) -> Option<String> {
    let name = unknown_command(error)?;
    let (_, meant) = FOREIGN_COMMANDS.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("no command '{name}'; {meant}"))
}

/// The first word, where it is no command.
pub fn unknown_command(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) => Some(name),
        _ => None,
    }
}

/// What to write in place of an option that haul does not have.
pub fn foreign_flag(error: &clap::Error, command: Option<&str>) -> Option<String> {
    let given = |name: &str| matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(option)) if option == name);
    if error.kind() == ErrorKind::TooManyValues && given("--sparse") {
        return Some("--sparse preserves holes and takes no value; --no-sparse turns it off".into());
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = option.split('=').next().unwrap_or(option);
    let deletes = ["--delete", "--delete-after", "--delete-delay", "--delete-excluded", "--max-delete", "--ignore-errors"];
    if command == Some("cp") && deletes.contains(&option) {
        return Some(format!("cp never deletes; {option} is an option of `haul sync`"));
    }
    let (_, meant) = FOREIGN.iter().find(|(options, _)| options.contains(&option))?;
    Some(format!("no option {option}; {meant}"))
}

/// The error with its option named as it was written, where that is another of the option's names.
pub fn as_written(mut error: clap::Error, argv: &[OsString], command: Option<&clap::Command>) -> clap::Error {
    let is_written = |name: &str| {
        let rest = |word: &OsString| Some(word.to_str()?.strip_prefix("--")?.strip_prefix(name)?.to_string());
        argv.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let shown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => shown.clone(),
        _ => return error,
    };
    let long = shown.strip_prefix("--").and_then(|shown| shown.split(' ').next()).filter(|long| !is_written(long));
    let other = long.and_then(|long| {
        let option = command?.get_arguments().find(|option| option.get_long() == Some(long))?;
        let other = option.get_all_aliases()?.into_iter().find(|other| is_written(other))?;
        Some(shown.replacen(long, other, 1))
    });
    if let Some(other) = other {
        error.insert(ContextKind::InvalidArg, ContextValue::String(other));
    }
    error
}
