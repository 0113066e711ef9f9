//! `haul bench data`: show the plan, create or verify the set, show the result.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use haul_bench::data::{self, How, Made, Plan, Spec, Tally, Totals, Verified};
use haul_core::cancel::{Cancel, Stop};
use haul_core::entry::show;
use haul_core::{Error, ErrorKind, Result};
use haul_run::open;
use serde_json::{Value, json};

use super::runs;
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::DataFlags;
use crate::flags::bench::data::Wanted;
use crate::flags::global::Progress;
use crate::render::{PROGRESS_DEFAULT, harmless};
use crate::text::{columns, fold, things};
use crate::{out, signals, units};

/// Between two pictures on a terminal.
const FRAME: Duration = Duration::from_millis(200);
const WIDTH: usize = 80;

pub fn run(flags: &DataFlags, global: &Global) -> Exit {
    let cancel = Cancel::default();
    let kept = "stopping; created files are kept (a second signal stops at once)";
    let first = if flags.verify { "stopping (a second signal stops at once)" } else { kept };
    match signals::cancels(&cancel, first, None, || {}).and_then(|()| work(flags, global, &cancel)) {
        Ok(exit) => exit,
        Err(e) if e.kind() == ErrorKind::Cancelled && cancel.why() == Some(Stop::Signal) => {
            out::say("stopped by a signal; nothing was changed");
            Exit::Signal
        }
        Err(e) => out::error(&e),
    }
}

fn work(flags: &DataFlags, global: &Global, cancel: &Cancel) -> Result<Exit> {
    let reporter = Reporter { global };
    let threads = open::threads(flags.workers);
    let refuse = |why: String| Error::new(ErrorKind::Usage, "bench data").because(why);
    let spec = match &flags.wanted {
        Wanted::Spec(spec) => spec.clone().scaled(flags.scale),
        Wanted::Like(tree, count) => like(tree, *count, flags.scale, threads, &reporter, cancel).and_then(|spec| spec.map_err(refuse))?,
    };
    let plan = Plan::new(&spec, &flags.options).map_err(refuse)?;
    let totals = plan.totals();
    let dir = show(flags.dir.as_os_str().as_encoded_bytes());
    let verb = if flags.verify { "comparing" } else { "creating" };
    reporter.text(&sentence(&format!("{verb} {} in {dir}; seed {}", amounts(&totals), flags.options.seed)))?;
    if flags.dry || global.verbose > 0 {
        reporter.text(&details(&plan))?;
    }
    if flags.dry {
        reporter.text("DRY RUN: nothing was created\n")?;
        reporter.document(json!({ "dry_run": true, "plan": plan_json(&plan, &flags.dir) }))?;
        return Ok(Exit::Success);
    }
    let tally = Tally::default();
    if flags.verify {
        let began = Instant::now();
        let found = reporter.while_it_runs("compared", &totals, &tally, || data::verify(&plan, &flags.dir, threads, cancel, &tally))?;
        return compared(&found, began.elapsed(), &plan, &flags.dir, &reporter);
    }
    let how = How { threads, add: flags.add, cancel, tally: &tally };
    let made =
        reporter.while_it_runs("created", &totals, &tally, || data::make(&plan, &flags.dir, how)).map_err(|e| kept_so_far(e, &tally))?;
    ended(&made, &plan, flags, &reporter)
}

fn like(
    tree: &Path,
    count: Option<u64>,
    scale: u64,
    threads: usize,
    reporter: &Reporter<'_>,
    cancel: &Cancel,
) -> Result<Result<Spec, String>> {
    let unreadable = AtomicU64::new(0);
    let failed = |e: Error| {
        unreadable.fetch_add(1, Ordering::Relaxed);
        out::failure(&e);
    };
    let profile = data::read(tree, threads, cancel, &std::env::temp_dir(), &failed)?;
    let shown = show(tree.as_os_str().as_encoded_bytes());
    let files = units::count(profile.files);
    reporter.text(&sentence(&format!(
        "read {shown}: {files} files, {}, {} directories, {} symbolic links, {} hard links",
        units::bytes(profile.bytes),
        units::count(profile.dirs),
        units::count(profile.symlinks),
        units::count(profile.hard_links)
    )))?;
    let unread = unreadable.into_inner();
    if unread > 0 {
        out::say(&format!("{} directories could not be read and count as empty", units::count(unread)));
    }
    if profile.specials > 0 {
        out::say(&format!("{} devices, pipes and sockets are skipped", units::count(profile.specials)));
    }
    Ok(Spec::like(&profile, Some((count.unwrap_or(profile.files) / scale).max(1)).filter(|_| profile.files > 0)))
}

/// What stays when a run of making ends with an error.
fn kept_so_far(e: Error, tally: &Tally) -> Error {
    let made = tally.entries.load(Ordering::Relaxed);
    if made == 0 || e.next_step().is_some() {
        return e;
    }
    e.hint(format!("{} files are kept; the same command resumes", units::count(made)))
}

fn ended(made: &Made, plan: &Plan, flags: &DataFlags, reporter: &Reporter<'_>) -> Result<Exit> {
    for failure in &made.failures {
        out::failure(failure);
    }
    let unreported = made.failed - made.failures.len() as u64;
    if unreported > 0 {
        out::say(&format!("... and {} more", units::count(unreported)));
    }
    let seconds = made.seconds.max(1e-9);
    let rate = |count: u64| count as f64 / seconds;
    let mut line = format!(
        "created {}, {}, {} in {}: {}, {} files/s",
        things(made.entries, "file"),
        units::bytes(made.bytes),
        things(made.dirs, "directory"),
        units::duration(Duration::from_secs_f64(made.seconds)),
        units::rate(rate(made.bytes)),
        units::count(rate(made.entries) as u64)
    );
    if made.kept > 0 && made.entries + made.failed == 0 && !made.interrupted {
        line = format!("nothing to create: all {} files of this data set exist", units::count(made.kept));
    } else if made.kept > 0 {
        line.push_str(&format!("; {} existed", things(made.kept, "file")));
    }
    if made.failed > 0 {
        line.push_str(&format!("; {} failed", units::count(made.failed)));
    }
    if made.interrupted {
        line.push_str("; stopped by a signal: the files created so far are complete; the same command resumes");
    }
    reporter.text(&sentence(&line))?;
    let mut fields = json!(made);
    fields["plan"] = plan_json(plan, &flags.dir);
    (fields["bytes_per_second"], fields["files_per_second"]) = (rate(made.bytes).into(), rate(made.entries).into());
    reporter.document(fields)?;
    Ok(match () {
        () if made.interrupted => Exit::Signal,
        () if made.failed > 0 => Exit::Partial,
        () => Exit::Success,
    })
}

fn compared(found: &Verified, elapsed: Duration, plan: &Plan, dir: &Path, reporter: &Reporter<'_>) -> Result<Exit> {
    for difference in &found.differences {
        reporter.text(&format!("{}: {}\n", show(&difference.path), difference.what))?;
    }
    let unreported = (found.missing + found.differing + found.unreadable).saturating_sub(found.differences.len() as u64);
    if unreported > 0 {
        reporter.text(&format!("... and {} more\n", units::count(unreported)))?;
    }
    let of = |n: u64, what: &str| format!("{} {what}", units::count(n));
    let parts = [
        of(found.same, "identical"),
        of(found.missing, "missing"),
        of(found.differing, "differing"),
        of(found.extra, "extra"),
        of(found.unreadable, "unreadable"),
    ];
    let line = format!("{}; {} compared in {}", parts.join(", "), units::bytes(found.bytes), units::duration(elapsed));
    reporter.text(&sentence(&line))?;
    let mut fields = json!(found);
    (fields["plan"], fields["seconds"]) = (plan_json(plan, dir), elapsed.as_secs_f64().into());
    reporter.document(fields)?;
    Ok(match found {
        found if found.is_same() => Exit::Success,
        Verified { unreadable: 1.., .. } => Exit::Partial,
        _ => Exit::Differs,
    })
}

/// `1,000 files (9.77 GiB), 408 symbolic links in 3 directories`.
fn amounts(totals: &Totals) -> String {
    let mut text = format!("{} ({})", things(totals.files, "file"), units::bytes(totals.bytes));
    if totals.stored < totals.bytes {
        text.push_str(&format!(", of which {} holes", units::bytes(totals.bytes - totals.stored)));
    }
    if totals.symlinks > 0 {
        text.push_str(&format!(", {}", things(totals.symlinks, "symbolic link")));
    }
    if totals.hard_links > 0 {
        text.push_str(&format!(", {}", things(totals.hard_links, "hard link")));
    }
    if totals.dirs > 0 {
        text.push_str(&format!(", {}", things(totals.dirs, "directory")));
    }
    text
}

fn details(plan: &Plan) -> String {
    let mut text = String::new();
    let bins = plan.histogram();
    let most = bins.iter().map(|bin| bin.files).max().unwrap_or(1).max(1);
    text.push_str(&format!("\n{:>10}    {:<10} {:>12} {:>12}\n", "from", "below", "files", "bytes"));
    for bin in bins {
        let below = if bin.from == 0 { 1 } else { bin.from.saturating_mul(2) };
        let bar = "#".repeat((bin.files * 25).div_ceil(most) as usize);
        let (from, below, files) = (units::bytes(bin.from), units::bytes(below), units::count(bin.files));
        text.push_str(&format!("{from:>10} .. {below:<10} {files:>12} {:>12} {bar}\n", units::bytes(bin.bytes)));
    }
    text.push('\n');
    text
}

fn plan_json(plan: &Plan, dir: &Path) -> Value {
    let mut whole = json!(plan.totals());
    (whole["dir"], whole["sizes"]) = (dir.to_string_lossy().into(), json!(plan.histogram()));
    whole
}

fn sentence(text: &str) -> String {
    let lines = if std::io::stdout().is_terminal() { fold(text, WIDTH, 2) } else { vec![text.to_string()] };
    lines.join("\n") + "\n"
}

struct Reporter<'a> {
    global: &'a Global,
}

impl Reporter<'_> {
    /// For people: on standard output; with `--json` on standard error; not with `--quiet`.
    fn text(&self, text: &str) -> Result<()> {
        if self.global.quiet { Ok(()) } else { runs::text(text.to_string(), self.global) }
    }

    fn document(&self, fields: Value) -> Result<()> {
        runs::document("bench-data", fields, self.global)
    }

    /// Runs `work`, and shows meanwhile how far it is.
    fn while_it_runs<T>(&self, verb: &str, totals: &Totals, tally: &Tally, work: impl FnOnce() -> T) -> T {
        let terminal = std::io::stderr().is_terminal() && crate::render::can_draw(std::env::var("TERM").ok().as_deref());
        let pause = match self.global.progress {
            _ if self.global.quiet => return work(),
            Progress::Every(pause) => pause,
            _ if terminal => FRAME,
            Progress::Auto | Progress::On => PROGRESS_DEFAULT,
        };
        let drawn = terminal && !matches!(self.global.progress, Progress::Every(_));
        let began = Instant::now();
        // Ends the display when it is dropped, also when the work panics.
        let (working, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut shown = false;
                while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let line = progress(verb, totals, tally, began.elapsed());
                    let mut to = std::io::stderr().lock();
                    let _ = if drawn { write!(to, "\r{}\x1b[K", clipped(&line)) } else { writeln!(to, "{line}") };
                    shown = true;
                }
                if shown && drawn {
                    let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
                }
            });
            let _working = working;
            work()
        })
    }
}

fn progress(verb: &str, totals: &Totals, tally: &Tally, elapsed: Duration) -> String {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (entries, kept, bytes) = (of(&tally.entries), of(&tally.kept), of(&tally.bytes));
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let there = if kept > 0 { format!(", {} existing", units::count(kept)) } else { String::new() };
    format!(
        "{verb} {} of {} files{there}, {} of {}, {}, {} files/s",
        units::count(entries),
        units::count(totals.entries()),
        units::bytes(bytes),
        units::bytes(totals.bytes),
        units::rate(bytes as f64 / seconds),
        units::count((entries as f64 / seconds) as u64)
    )
}

/// Never as wide as the terminal, which would break the line.
fn clipped(line: &str) -> String {
    let width = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(WIDTH, |size| usize::from(size.ws_col).max(2));
    let line = harmless(line.to_string());
    if columns(&line) < width { line } else { line.chars().take(width - 1).collect() }
}
