//! `haul complete`: the words that completions offer beside options and files: hosts, buckets, profiles, jobs. Only what this
//! machine knows already; nothing is sent and nothing is written.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use haul_core::entry::show;
use haul_core::journal::{Glance, default_root, glance};
use haul_net::http_client::Environment;
use haul_run::known;
use haul_s3::account::profiles;

use crate::flags::Global;
use crate::flags::hints::operands;
use crate::flags::other::CompleteFlags;

/// Commands whose operands are places.
const PLACES: &str = " cp sync mv check sum ls du df tree cat mkdir rm ln chmod chown chgrp ";
/// And those that have one operand before the places.
const AFTER_ONE: &str = " chmod chown chgrp ";
const BUCKETS: &str = " mb rb head presign tag acl restore bucket-version ";

/// What is offered, and what is said of it.
type Offers = BTreeMap<String, String>;

/// One word a line, and after a tab what it is.
pub fn lines(flags: &CompleteFlags, global: &Global) -> Vec<u8> {
    let mut lines = Vec::new();
    for (word, about) in offers(flags, global) {
        let _ = writeln!(lines, "{}\t{}", show(word.as_bytes()), show(about.as_bytes())); // memory takes all
    }
    lines
}

fn offers(flags: &CompleteFlags, global: &Global) -> Offers {
    let Some(current) = flags.current.to_str() else { return Offers::new() };
    let asks = Asks { words: &flags.words, global };
    let (command, before) = operands(&flags.words);
    let (_, with) = operands(&[&flags.words[..], std::slice::from_ref(&flags.current)].concat());
    let last = flags.words.last().and_then(|word| word.to_str()).unwrap_or_default();
    let is = |list: &str| command.as_ref().is_some_and(|command| list.contains(&format!(" {command} ")));
    let mut offers = match (command.as_deref(), before.first().map(String::as_str)) {
        // The value of an option.
        _ if with.len() == before.len() && !current.is_empty() && !current.starts_with('-') || wants_value(last) => match last {
            "--profile" => asks.profiles().into_iter().map(|name| (name, "profile".into())).collect(),
            "-J" | "--jump" => asks.hosts(current, ""),
            _ => Offers::new(),
        },
        (Some("jobs"), Some("show" | "clean")) | (Some("why"), _) => asks.jobs(|_| true),
        (Some("jobs"), Some("resume")) => asks.jobs(|job| !job.finished),
        (Some("doctor"), _) | (Some("bench"), Some("net")) => asks.hosts(current, ""),
        _ if is(BUCKETS) => asks.buckets(current),
        (_, None) if is(AFTER_ONE) => Offers::new(),
        _ if is(PLACES) => asks.places(current),
        _ => Offers::new(),
    };
    offers.retain(|word, _| word.starts_with(current));
    offers
}

fn wants_value(option: &str) -> bool {
    matches!(option, "--profile" | "-J" | "--jump")
}

struct Asks<'a> {
    words: &'a [OsString],
    global: &'a Global,
}

impl Asks<'_> {
    /// The value of an option in the words before.
    fn option(&self, names: [&str; 2]) -> Option<PathBuf> {
        let mut value = None;
        for word in self.words.iter().rev() {
            let text = word.to_str().unwrap_or_default();
            if names.contains(&text) {
                return value.map(PathBuf::from);
            }
            if let Some(joined) = names.iter().find_map(|name| text.strip_prefix(name)?.strip_prefix('=')) {
                return Some(PathBuf::from(joined));
            }
            value = Some(word);
        }
        None
    }

    /// Hosts of ssh's configuration, with the user that was typed before one.
    fn hosts(&self, current: &str, end: &str) -> Offers {
        let user = current.rfind('@').map_or("", |at| &current[..=at]);
        let config = self.option(["-F", "--ssh-config"]);
        known::hosts(config.as_deref()).into_iter().map(|host| (format!("{user}{host}{end}"), "host".into())).collect()
    }

    fn places(&self, current: &str) -> Offers {
        for scheme in ["ssh://", "sftp://"] {
            if let Some(rest) = current.strip_prefix(scheme) {
                return self.hosts(rest, "/").into_iter().map(|(host, about)| (format!("{scheme}{host}"), about)).collect();
            }
        }
        let mut offers = self.buckets(current);
        // A slash before the colon is a local path's.
        if !current.contains([':', '/']) {
            offers.extend(self.hosts(current, ":"));
        }
        offers
    }

    /// Those that jobs have read from or written to, and with them the profiles by which buckets are reached.
    fn buckets(&self, current: &str) -> Offers {
        if !"s3://".starts_with(current) && !current.starts_with("s3://") {
            return Offers::new();
        }
        let mut offers = Offers::new();
        for job in self.all_jobs() {
            for place in job.sources.iter().chain([&job.target]) {
                if let Some((bucket, _)) = place.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
                    offers.insert(format!("s3://{bucket}/"), "bucket of a job".into());
                }
            }
        }
        offers.extend(self.profiles().into_iter().map(|name| (format!("s3://{name}@"), "profile".into())));
        offers
    }

    fn profiles(&self) -> Vec<String> {
        profiles(&Environment::process())
    }

    fn all_jobs(&self) -> Vec<Glance> {
        let root = self.option(["--state-dir", "--state-dir"]).or_else(|| self.global.state_dir.clone());
        let root = root.or_else(|| default_root(|name| std::env::var_os(name)));
        root.map(|root| glance(&root)).unwrap_or_default()
    }

    fn jobs(&self, chosen: impl Fn(&Glance) -> bool) -> Offers {
        let about = |job: &Glance| {
            let standing = if job.finished { "finished" } else { "not finished" };
            format!("{standing}: {} -> {}", job.sources.first().map_or("?", String::as_str), job.target)
        };
        self.all_jobs().into_iter().filter(|job| chosen(job)).map(|job| (job.id.clone(), about(&job))).collect()
    }
}
