//! The end of a run in lines that can be pasted into a ticket. Pure.
//!
//! Lines whose number is zero are left out. A run in which nothing special happened gets the short form
//! of about six lines; `--stat`, a failure or a resumed file get the long one.

use std::time::Duration;

use haul_core::error::ErrorKind;
use haul_core::report::{Ending, Failure, Kinds, Report};
use haul_core::spread::Spread;

use crate::hints;
use crate::spread::SpreadFigures;

use super::Mode;
use super::lines::{failure_lines, plain, show_path};
use crate::text::{bit_rate, bytes, clock, count, duration, fold, frequency, quoted, rate, seconds, things};

/// Failures written out in full.
pub const FAILURES_SHOWN: usize = 20;

/// The ends of the column of labels and of names in the table of times.
const LABEL: usize = 12;

/// What the summary says beside the report.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub mode: Mode,
    /// `--stat`: the long form in any case.
    pub stat: bool,
    /// Date, time and offset of beginning and end.
    pub started: String,
    pub completed: String,
    /// The command line, to be pasted, when the caller knows it.
    pub command: Option<String>,
    /// `all names are in FILE`, when `--failed-to` was given.
    pub failed_to: Option<String>,
    /// Columns to fold long lines at.
    pub width: Option<usize>,
    /// Bytes passed a network: rates are shown in bits, too.
    pub network: bool,
    /// The same command would not resume this run, but start over.
    pub starts_over: bool,
}

/// A run of less than this is given no advice.
const ADVICE: Duration = Duration::from_secs(2);

pub fn summary(report: &Report, context: &Context) -> Vec<String> {
    let mut table = Table { lines: Vec::new(), width: context.width.unwrap_or(usize::MAX) };
    let long = context.stat || is_special(report);
    head(report, context, long, &mut table);
    items(report, context, &mut table);
    data(report, context, long, &mut table);
    times(report, context, long, &mut table);
    if let Some(spread) = Spread::of(&report.ranks) {
        let figures = SpreadFigures::from(&spread);
        table.row("Ranks", format!("{}; each (min / median / max): {}", figures.title(), figures.each()));
        if let Some(stragglers) = figures.stragglers() {
            table.row("Stragglers", stragglers);
        }
    }
    for (word, n) in &report.refused {
        let denied = report.denied.iter().find(|(known, _)| known == word).map_or(0, |(_, denied)| *denied);
        for (n, why) in [(denied, "not permitted"), (n.saturating_sub(denied), refusal(word))] {
            if n > 0 {
                table.row("Not set", format!("{word} of {}: {why}", things(n, "entry")));
            }
        }
    }
    if let Some(why) = &report.deletes_skipped {
        table.row("Not deleted", hints::skipped(why));
    }
    if !report.limited_by.is_empty() && !report.dry {
        table.row("Bottleneck", plain(&report.limited_by));
        // The rest of it is what `haul why` is for. Nobody has time to gain in a run that took none.
        let matters = report.elapsed >= ADVICE;
        if let Some(next) = report.next.first().filter(|next| matters && !next.starts_with("nothing")) {
            table.row("Try next", plain(next));
        }
    }
    let mut lines = table.lines;
    lines.extend(failures(report, context));
    lines.extend(ending(report, context));
    lines
}

/// Whether more happened than a user expects of a copy.
fn is_special(report: &Report) -> bool {
    report.ending != Ending::Complete
        || report.failed + report.vanished + report.resumed_bytes + report.reused_bytes + report.verified_files > 0
        || report.deletes_skipped.is_some()
}

struct Table {
    lines: Vec<String>,
    width: usize,
}

impl Table {
    fn row(&mut self, label: &str, value: String) {
        self.lines.extend(fold(&format!("{:<LABEL$} {value}", format!("{label}:")), self.width, LABEL + 1));
    }
}

fn head(report: &Report, context: &Context, long: bool, table: &mut Table) {
    let result = match report.ending {
        Ending::Complete if report.failed > 0 => Some("completed with errors, listed below"),
        Ending::Complete => None,
        other => Some(ended(other, context.starts_over)),
    };
    if let Some(result) = result {
        table.row("Result", result.into());
    }
    if long {
        table.row("Started", context.started.clone());
        table.row("Completed", context.completed.clone());
        let words = if report.elapsed >= Duration::from_secs(60) { format!(" ({})", clock(report.elapsed)) } else { String::new() };
        table.row("Seconds", seconds(report.elapsed) + &words);
    } else {
        table.row("Completed", format!("{} after {} s", context.completed, seconds(report.elapsed)));
    }
}

/// How a run ended, in words.
pub fn ended(ending: Ending, starts_over: bool) -> &'static str {
    match ending {
        Ending::Interrupted if starts_over => "interrupted",
        Ending::Deadline if starts_over => "stopped at the deadline",
        Ending::Timeout if starts_over => "no progress within --timeout",
        Ending::Complete => "complete",
        Ending::Interrupted => "interrupted; run the same command again to resume",
        Ending::Deadline => "stopped at the deadline; run the same command again to resume",
        Ending::Timeout => "no progress within --timeout; run the same command again to resume",
        Ending::Stopped => "fatal error",
        Ending::TooManyDeletes => "--max-delete exceeded: nothing was deleted",
    }
}

/// `37,761 (37,760 files, 1 directory)`.
fn kinds(k: &Kinds) -> String {
    let all = [(k.files, "file"), (k.dirs, "directory"), (k.links, "symlink"), (k.specials, "special file")];
    let parts: Vec<String> = all.iter().filter(|(n, _)| *n > 0).map(|(n, word)| things(*n, word)).collect();
    match parts.len() {
        0 => "0".into(),
        1 => parts.into_iter().collect(),
        _ => format!("{} ({})", count(k.total()), parts.join(", ")),
    }
}

/// `12 entries (metadata, tags of 3)`.
fn attributes_set(report: &Report) -> String {
    let option = |&(word, n): &(&str, u64)| if n == report.attributes { word.to_string() } else { format!("{word} of {}", count(n)) };
    let entries = things(report.attributes, "entry");
    match &report.options_set[..] {
        [] => entries,
        options => format!("{entries} ({})", options.iter().map(option).collect::<Vec<_>>().join(", ")),
    }
}

fn items(report: &Report, context: &Context, table: &mut Table) {
    let would = |done: &'static str, dry: &'static str| if report.dry { dry } else { done };
    table.row("Items", kinds(&report.found));
    if context.mode == Mode::Check {
        table.row("Identical", kinds(&report.kept));
        for (label, n) in [("Missing", report.missing), ("Extra", report.extra), ("Differing", report.differing)] {
            if n > 0 || context.stat {
                table.row(label, count(n));
            }
        }
    } else {
        let linked = match report.hard_links {
            0 => String::new(),
            n => format!(", {} of them as hard links", count(n)),
        };
        table.row(would("Created", "Create"), kinds(&report.created()) + &linked);
        if report.replaced.total() > 0 {
            table.row(would("Replaced", "Replace"), kinds(&report.replaced));
        }
        if report.renamed.total() > 0 {
            let contents = if report.renamed.dirs > 0 { ", including the contents of directories" } else { "" };
            table.row(would("Renamed", "Rename"), kinds(&report.renamed) + contents);
        }
        if report.kept.total() > 0 {
            table.row("Unchanged", kinds(&report.kept));
        }
        if report.attributes > 0 {
            table.row("Attributes", format!("{} {}", would("set on", "to set on"), attributes_set(report)));
        }
        if report.deleted.total() > 0 {
            table.row(would("Deleted", "Delete"), kinds(&report.deleted));
        }
        if report.left.total() > 0 {
            table.row("Kept", format!("{} at the source", kinds(&report.left)));
        }
    }
    if report.skipped.total() > 0 {
        let only_specials = report.passed_over == 0 && report.skipped.total() == report.skipped.specials;
        let how = if only_specials { "copied only with -D or -a" } else { "see -vv" };
        table.row("Skipped", format!("{} ({how})", kinds(&report.skipped)));
    }
    if report.vanished > 0 {
        table.row("Vanished", format!("{} after they were listed", count(report.vanished)));
    }
    if report.failed > 0 {
        table.row("Errors", count(report.failed));
    }
}

fn data(report: &Report, context: &Context, long: bool, table: &mut Table) {
    let (files_rate, bytes_rate) = report.rates();
    // Another name of a file has no bytes of its own.
    let written = report.made.files.saturating_sub(report.hard_links);
    if report.dry {
        if report.file_bytes == 0 {
            return table.row("Data", "nothing to transfer".into());
        }
        table.row("Data", format!("{} to transfer{}", bytes(report.file_bytes), each(report.file_bytes, written)));
        return;
    }
    let word = if context.mode == Mode::Check { "read" } else { "transferred" };
    // Holes, reflinks and what was resumed make the files larger than what moved.
    let apart = report.file_bytes != report.bytes && report.file_bytes > 0 && (long || report.file_bytes > report.bytes);
    let per_file = each(report.file_bytes, written);
    let moved_nothing = report.bytes + report.file_bytes == 0;
    if moved_nothing && context.mode != Mode::Check {
        table.row("Data", if report.failed > 0 { "nothing transferred" } else { "nothing to transfer" }.into());
    } else if report.bytes > 0 || context.mode != Mode::Check {
        let here = if apart { "" } else { &per_file };
        table.row("Data", format!("{} {word}, {}{here}", bytes(report.bytes), things(report.bytes, "byte")));
    }
    if apart {
        table.row("File sizes", bytes(report.file_bytes) + &per_file);
    }
    if report.reused_bytes > 0 {
        table.row("Reused", format!("{} of changed files, from their old versions at the destination", bytes(report.reused_bytes)));
    }
    if report.resumed_bytes > 0 {
        table.row("Resumed", format!("{} from an earlier run", bytes(report.resumed_bytes)));
    }
    if report.verified_files > 0 {
        let proof = report.proof.map(|words| format!(": {}", plain(words))).unwrap_or_default();
        table.row("Verified", format!("{}, {}{proof}", things(report.verified_files, "file"), bytes(report.verified_bytes)));
    }
    if context.mode == Mode::Check {
        let entries = report.found.total() as f64 / report.elapsed.as_secs_f64().max(1e-9);
        table.row("Throughput", format!("{} entries/s", frequency(entries)));
    } else if moved_nothing && report.made.files > 0 {
        table.row("Throughput", format!("{} files/s", frequency(files_rate)));
    } else if moved_nothing {
        let entries = report.found.total() as f64 / report.elapsed.as_secs_f64().max(1e-9);
        table.row("Throughput", format!("{} entries/s compared", frequency(entries)));
    } else {
        let bits = if context.network { format!(" ({})", bit_rate(bytes_rate)) } else { String::new() };
        table.row("Throughput", format!("{}{bits}, {} files/s", rate(bytes_rate), frequency(files_rate)));
    }
    if report.retries > 0 {
        table.row("Retries", count(report.retries));
    }
}

/// ` (6.35 KiB per file)`, when there is more than one.
fn each(sum: u64, files: u64) -> String {
    if files > 1 { format!(" ({} per file)", bytes(sum / files)) } else { String::new() }
}

fn times(report: &Report, context: &Context, long: bool, table: &mut Table) {
    let t = &report.times;
    let kinds = [
        ("walking", t.walking),
        ("opening", t.opening),
        ("reading", t.reading),
        ("writing", t.writing),
        ("copying", t.copying),
        ("metadata", t.metadata + t.effects),
        ("hashing", t.hashing),
        ("verifying", t.verifying),
        ("network", t.network),
        ("throttled", t.throttled),
    ];
    let busy: f64 = kinds.iter().map(|(_, d)| d.as_secs_f64()).sum();
    let share = |d: Duration| (d.as_secs_f64() / busy.max(1e-9) * 100.0).round() as u64;
    if long && report.workers_peak > 0 {
        table.row("Workers", format!("{} at the end, {} at peak", report.workers_end, report.workers_peak));
    }
    // Times too short to tell anything are not told, nor those of a run that did nothing.
    if busy < 0.001 || (report.dry && !long) {
        return;
    }
    let shown = kinds.iter().filter(|(_, d)| d.as_secs_f64() >= 0.0005);
    if context.stat {
        table.row("Time", format!("{busy:.3} worker seconds"));
        for (word, d) in shown {
            table.lines.push(format!("  {word:<10} {:>12} s  {:>3}%", seconds(*d), share(*d)));
        }
        for (word, d) in [("idle", t.idle), ("processor", t.cpu)] {
            table.lines.push(format!("  {word:<10} {:>12} s", seconds(d)));
        }
    } else {
        let parts: Vec<String> =
            shown.filter(|(_, d)| share(*d) > 0).map(|(word, d)| format!("{word} {} ({}%)", duration(*d), share(*d))).collect();
        if !parts.is_empty() {
            table.row("Time", format!("{}, summed over workers", parts.join(", ")));
        }
    }
}

/// Why attributes of this kind are refused most often.
fn refusal(word: &str) -> &'static str {
    match word {
        "owner" => "needs root",
        "group" => "needs root or membership in the group",
        "setid" => "requires the owner to be preserved",
        "acl" | "xattr" | "context" => "not supported by the destination, or needs root",
        _ => "not supported by the destination",
    }
}

fn failures(report: &Report, context: &Context) -> Vec<String> {
    let total = report.failed + report.vanished;
    if total == 0 || report.failures.is_empty() {
        return Vec::new();
    }
    let shown = report.failures.len().min(FAILURES_SHOWN);
    let head = if total > shown as u64 { "First failures:" } else { "Failures:" };
    let mut lines = vec![String::new(), head.to_string()];
    for Failure { path, op, reason, next_step, code, .. } in &report.failures[..shown] {
        let subject = format!("{}: ", show_path(path));
        lines.extend(failure_lines("  ", &subject, op, reason, None));
        let step = code.as_ref().map(hints::words).or_else(|| next_step.clone());
        lines.extend(step.map(|step| format!("    try: {}", plain(&step))));
    }
    match (total.saturating_sub(shown as u64), &context.failed_to) {
        (0, None) => {}
        (0, Some(names)) => lines.push(format!("  {names}")),
        (more, None) => lines.push(format!("  and {} more; --failed-to FILE writes all names", count(more))),
        (more, Some(names)) => lines.push(format!("  and {} more; {names}", count(more))),
    }
    lines
}

/// What a user does next, and the last line of a dry run.
fn ending(report: &Report, context: &Context) -> Vec<String> {
    if report.dry {
        return vec!["DRY RUN: nothing was copied".into()];
    }
    let command = |words: &str| match &context.command {
        Some(line) => vec![format!("{words}:"), format!("  {line}")],
        None => vec![format!("{words}.")],
    };
    let next = match report.ending {
        _ if context.mode == Mode::Check && report.ending == Ending::Complete => {
            let differences = report.missing + report.extra + report.differing;
            return vec![match (differences, report.failed) {
                (0, 0) => "Identical.".into(),
                (0, _) => "No differences found, but some files could not be read.".into(),
                (n, _) => format!("Not identical: {}.", things(n, "difference")),
            }];
        }
        Ending::Complete if report.failed > 0 => command("Fix the errors and rerun; finished files are skipped"),
        Ending::Complete => return Vec::new(),
        Ending::Interrupted | Ending::Deadline | Ending::Timeout if context.starts_over => return Vec::new(),
        Ending::Interrupted | Ending::Deadline | Ending::Timeout => {
            command("Transferred data is kept. To resume, run the same command again")
        }
        Ending::Stopped => {
            let kinds = &report.failed_kinds;
            let kind = kinds.iter().find(|kind| kind.ends_the_run()).or(kinds.first());
            let what = kind.map_or("the cause is fixed", |kind| remedy(*kind, report));
            let kept = if context.starts_over { "" } else { "Transferred data is kept. " };
            command(&format!("{kept}Once {what}, run the same command again"))
        }
        Ending::TooManyDeletes => command("If the deletes are intended, rerun with a larger --max-delete"),
    };
    std::iter::once(String::new()).chain(next).collect()
}

fn remedy(kind: ErrorKind, report: &Report) -> &'static str {
    match kind {
        ErrorKind::ReadOnly if report.read_only_source => "the source is writable",
        ErrorKind::NoSpace => "there is space",
        ErrorKind::Quota => "the quota allows it",
        ErrorKind::Limit => "the limit is raised",
        ErrorKind::ReadOnly => "the destination is writable",
        ErrorKind::Broken => "the connection is back",
        _ => "the cause is fixed",
    }
}

/// The command line as it can be pasted into a shell.
pub fn command_line<'a>(arguments: impl Iterator<Item = &'a [u8]>) -> String {
    arguments.map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
