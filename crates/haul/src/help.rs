//! `haul help`: commands from their definitions, topics from the texts below. The pages of the manual are made here too.

use std::io;
use std::path::Path;

use clap::builder::StyledStr;

use crate::exit;
use crate::flags::{Text, definitions};
use haul_run::location::{Scheme, schemes};

/// A topic's name, what it is about, its page.
type Topic = (&'static str, &'static str, fn() -> String);

const TOPICS: [Topic; 5] = [
    ("exit-codes", "exit codes", exit::page),
    ("addresses", "how files, hosts and buckets are named", addresses),
    ("filters", "--include, --exclude and their files", || FILTERS.to_string()),
    ("attributes", "preserved attributes, with and without -a", || ATTRIBUTES.to_string()),
    ("units", "sizes, rates, durations and times", || UNITS.to_string()),
];

/// A command's help or a topic's page; without a name the list of them. An unknown name is an error in words.
pub fn page(name: Option<&str>) -> Result<Text, String> {
    let Some(name) = name else { return Ok(overview()) };
    if let Some((.., text)) = TOPICS.iter().find(|(topic, ..)| *topic == name) {
        return Ok(Text::from(text()));
    }
    let mut all = definitions();
    all.build();
    match all.find_subcommand_mut(name) {
        Some(command) => Ok(from_styled(&command.render_help())),
        None => Err(format!("no command or topic '{}'; `haul help` lists them", haul_core::entry::show(name.as_bytes()))),
    }
}

fn from_styled(text: &StyledStr) -> Text {
    Text { plain: text.to_string(), styled: text.ansi().to_string() }
}

fn overview() -> Text {
    let help = from_styled(&definitions().render_help());
    let mut topics = String::from("\nTopics (haul help TOPIC):\n");
    for (name, about, _) in TOPICS {
        topics.push_str(&format!("  {name:<11}  {about}\n"));
    }
    Text { plain: help.plain + &topics, styled: help.styled + &topics }
}

fn addresses() -> String {
    let mut page = String::from("Addresses:\n\n");
    let (local, remote): (Vec<_>, Vec<_>) = schemes().into_iter().partition(|scheme| *scheme == Scheme::LOCAL);
    for scheme in local.into_iter().chain([Scheme::STDIO]).chain(remote) {
        page.push_str(&format!("  {}\n", scheme.help));
    }
    page.push_str(ADDRESSES);
    page
}

const ADDRESSES: &str = "
A colon before the first slash means a host, as in scp, but an existing local name wins: wrfout_d01_2024-01-01_00:00:00 is a file.
For a local name with a colon that does not exist yet, write ./NAME. IPv6 addresses go in brackets: [::1]:path.

After ssh://host the path is absolute; ssh://host/~/x is relative to the login directory, as host:x is.
In URLs %20 is a space and %25 a percent sign; S3 keys are not decoded. Passwords in addresses are refused,
except in ftp:// and ftps://, where ~/.netrc is the better place.

Trailing slash: SRC creates DST/SRC, SRC/ means its contents (so do . and ..). A file goes into DST if DST is a
directory or ends in a slash. For S3 only the slash decides: s3://b/pre is the object, s3://b/pre/ the directory.

s3:// alone is the service: `haul ls s3://` lists its buckets. Keys of sources, and of ls, du and rm, may contain
wildcards, quoted against the shell: 's3://b/2024-*/x*.nc'. * and ? do not cross slashes, ** does, [a-z]
is one character, and a backslash escapes the next one.

s3://PROFILE@bucket/key uses that profile in ~/.aws and ignores flags and environment, so one run can copy between two
servers or accounts.
";

const FILTERS: &str =
    "--include PATTERN, --exclude PATTERN, --filter-from FILE (lines of `+ PATTERN` and `- PATTERN`), --include-from FILE and
--exclude-from FILE form one list, in the given order. The first matching pattern decides; names that match none are
included. Excluded directories are not entered.

  *.tmp        a name anywhere
  /cache       cache at the top of the source only
  cache/       directories named cache
  a/b          b in a, anywhere
  *  ?  [abc]  within one name
  **           across slashes; dir/*** is dir and everything in it

  haul sync --include '*/' --include '*.nc' --exclude '*' data/ DST     only *.nc files, at any depth

Patterns are rsync's. --delete keeps excluded names; --delete-excluded deletes them.
--min-size, --max-size, --newer-than and --older-than select files to copy, never files to delete.
--files-from FILE lists the names to copy: one path per line, relative to SRC (-0: separated by NUL).
";

const ATTRIBUTES: &str =
    "Default: modification times (ns) and permissions without setuid and setgid bits; symlinks as symlinks; a new directory
keeps the group and setgid bit that it inherits at the destination.

  -a                 -rlptgoD as in rsync, plus -A -X -H -S
  -p -t -o -g        permissions with setuid and setgid, times, owners, groups
  -D                 FIFOs, sockets and devices; without it they are skipped, and the summary counts them
  -A -X              ACLs; extended attributes (user.*, as root also security.capability and trusted.*)
  -H -S              hard links, sparse files
  --preserve=LIST    adds mode, times, owner, group, acl, xattr, links, sparse, specials, context (SELinux), all
  --no-perms --no-times --no-owner --no-group --no-acls --no-xattrs --no-hard-links --no-sparse --no-specials --no-links

They are applied in the given order: -a --no-owner preserves everything but the owner. Attributes that could not be
preserved are listed at the end, one line each. --chmod and --chown change permissions and owners of the copy.
";

const UNITS: &str = "Sizes: 400M, 1.5G, 64KiB, 512B. K M G T P and KiB MiB GiB TiB PiB count by 1024, KB MB GB TB PB by 1000, as in rsync.
Rates: a size per second (400M, 400MB/s) or 10Gbit; --bwlimit without a unit is in KiB/s, as in rsync; 0 is unlimited.
Durations: 250ms, 90s, 15m, 6h30m, 7d, 2w.
Times: 2026-01-31 and 2026-01-31T08:00 (local), 2026-01-31T08:00:00Z, 08:00 (the last one; for --deadline the next one);
a duration counts back from now (--newer-than 7d), or ahead for --deadline 5h30m.
Everywhere else a number without a unit is an error.
";

const ENVIRONMENT: &str = "HAUL_STATE_DIR
    Directory of the journals, unless --state-dir is given.
XDG_STATE_HOME, HOME
    Otherwise journals are in $XDG_STATE_HOME/haul, or in $HOME/.local/state/haul.
NO_COLOR
    Disables colors if set and not empty.
COLUMNS
    Width of the summary if the output is not a terminal.
S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL
    Endpoint of s3:// addresses.
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_REGION
    Keys and settings for object stores, as the AWS tools read them.
";

const FILES: &str = "~/.local/state/haul
    Journals of running, interrupted and finished jobs: see haul jobs.
~/.ssh/config
    Read by ssh, which haul runs.
~/.aws/config, ~/.aws/credentials
    Profiles of object stores.
.haul-*
    Partial files next to their final names; the next run resumes them, haul jobs clean removes them.
";

/// The manual's pages: name of the file, and its text.
pub fn manual() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = definitions();
    all.build();
    let mut pages = vec![("haul.1".to_string(), manual_page(&all, "haul")?)];
    below(&all, "haul", &mut pages)?;
    Ok(pages)
}

/// The pages of the commands in a command, and of those in them.
fn below(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("{name}-{}", inner.get_name());
        pages.push((format!("{name}.1"), manual_page(inner, &name)?));
        below(inner, &name, pages)?;
    }
    Ok(())
}

fn manual_page(command: &clap::Command, name: &str) -> io::Result<Vec<u8>> {
    let examples = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    // The examples have a section of their own; as a help text in front they would be folded into the description.
    let shown = command.clone().before_help(None::<&str>).display_name(name.to_string());
    let shown = if name == "haul" { shown } else { shown.version(env!("CARGO_PKG_VERSION")) };
    let man = clap_mangen::Man::new(shown.clone()).title(name.to_uppercase()).section("1").manual("haul");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = shown.clone().render_usage().to_string();
    let lines: Vec<&str> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    section(&mut page, "SYNOPSIS", &lines.join("\n"));
    man.render_description_section(&mut page)?;
    section(&mut page, "EXAMPLES", examples.trim_start_matches("Examples:").trim_start_matches('\n'));
    man.render_options_section(&mut page)?;
    // With their pages' names: clap's own section would name pages of hidden commands, too.
    let inner: Vec<String> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(|c| format!("{name}-{}(1)\n    {}", c.get_name(), c.get_about().map(ToString::to_string).unwrap_or_default()))
        .collect();
    section(&mut page, "COMMANDS", &inner.join("\n"));
    section(&mut page, "EXIT STATUS", &exit::page());
    section(&mut page, "ENVIRONMENT", ENVIRONMENT);
    section(&mut page, "FILES", FILES);
    if name != "haul" {
        section(&mut page, "SEE ALSO", "haul(1), haul help");
    }
    Ok(page)
}

/// A section of preformatted text.
fn section(page: &mut Vec<u8>, title: &str, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    page.extend_from_slice(format!(".SH {title}\n.nf\n").as_bytes());
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A dot or a quote at the beginning would be a request to roff.
        page.extend_from_slice(if line.starts_with(['.', '\'']) { b"\\&" } else { b"" });
        page.extend_from_slice(line.as_bytes());
        page.push(b'\n');
    }
    page.extend_from_slice(b".fi\n");
}

/// Writes the manual's pages into `dir`, which is made if it is missing.
pub fn write_manual(dir: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(dir)?;
    let pages = manual()?;
    for (name, text) in &pages {
        std::fs::write(dir.join(name), text)?;
    }
    Ok(pages.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_topic_has_a_page() {
        for command in definitions().get_subcommands().filter(|c| !c.is_hide_set()) {
            let page = page(Some(command.get_name())).expect("a page").plain;
            assert!(page.contains("Usage: haul "), "{page}");
            assert!(page.contains("Examples:\n"), "{page}");
            // Help is folded at 100 columns; an example must not be.
            let examples = command.get_before_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.lines().all(|line| line.chars().count() <= 98), "{examples}");
        }
        for (name, ..) in TOPICS {
            let page = page(Some(name)).expect("a page").plain;
            assert!(page.len() > 100 && page.lines().all(|line| line.chars().count() <= 140), "{page}");
        }
        assert!(page(Some("nothing")).is_err());
        let list = page(None).expect("the list").plain;
        assert!(list.contains("exit-codes") && list.contains("sync"), "{list}");
    }

    #[test]
    fn the_manual_has_a_page_a_command() {
        let pages = manual().expect("pages");
        for name in ["haul.1", "haul-cp.1", "haul-sync.1", "haul-jobs.1", "haul-bench-files.1", "haul-bench-net.1", "haul-jobs-clean.1"] {
            let (_, text) = pages.iter().find(|(n, _)| n == name).expect(name);
            let text = String::from_utf8_lossy(text);
            assert!(text.contains(".TH ") && text.contains(".SH SYNOPSIS"), "{text}");
            assert!(text.contains(".SH EXAMPLES") || name == "haul-jobs-clean.1", "{text}");
            for section in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
                assert!(text.contains(&format!(".SH {section}\n")), "{name}: {section}");
            }
        }
        let (_, first) = &pages[0];
        assert!(!String::from_utf8_lossy(first).contains("agent(1)"), "hidden commands have no page");
        assert!(!pages.iter().any(|(n, _)| n.contains("flags-table")));
    }
}
