//! Whole runs as they come out of the two streams, the log and the list of failed names.

use std::fs::File;
use std::io::Write;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::ErrorKind;
use haul_core::event::{Event, Observer, Warning, Why};
use haul_core::report::{Ending, Report};
use haul_core::retry::Again;
use haul_core::tune::Limits;
use jiff::tz::TimeZone;

use super::fixtures::{copied, entry, moving};
use super::*;

/// A stream that can be read afterwards, and closed at its other end.
#[derive(Clone, Default)]
struct Tape {
    text: Arc<Mutex<Vec<u8>>>,
    closed: Arc<Mutex<Option<io::ErrorKind>>>,
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kind) = *self.closed.lock().unwrap() {
            return Err(kind.into());
        }
        // Short writes happen.
        let part = &bytes[..bytes.len().min(1000)];
        self.text.lock().unwrap().extend_from_slice(part);
        Ok(part.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tape {
    fn read(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

struct Run {
    out: Tape,
    err: Tape,
    gone: Arc<Mutex<u32>>,
    renderer: Arc<Renderer>,
}

fn run(options: Options) -> Run {
    let (out, err, gone) = (Tape::default(), Tape::default(), Arc::new(Mutex::new(0)));
    let count = gone.clone();
    let outputs = Outputs {
        stdout: Box::new(out.clone()),
        stderr: Box::new(err.clone()),
        size: Box::new(Size::default),
        stdout_gone: Box::new(move || *count.lock().unwrap() += 1),
    };
    let clock = Clock { now: Box::new(|| "2024-05-01T06:42:33.123456Z".parse().unwrap()), zone: TimeZone::fixed(jiff::tz::offset(3)) };
    let renderer = Renderer::new(Options { clock, ..options }, outputs);
    Run { out, err, gone, renderer }
}

fn denied(path: &str) -> Error {
    Error::new(ErrorKind::Denied, "open").at(path.as_bytes()).hint("chmod u+r it")
}

impl Run {
    fn item(&self, action: Action, why: Why, path: &str, kind: Kind) {
        self.renderer.on(&Event::Item { action, why, entry: &entry(path, kind), dry: self.renderer.options.dry });
    }

    /// What a small run sends.
    fn play(&self) -> &Self {
        let r = &self.renderer;
        r.on(&Event::Started { sentence: "copies a into b" });
        self.item(Action::MakeDir, Why::New, "d", Kind::Dir);
        r.on(&Event::Tuned(Limits { workers: 8 }));
        r.on(&Event::Retried { error: &denied("d/e"), again: Again { attempt: 1, of: 10, wait: Duration::ZERO } });
        for elapsed in [10, 29, 31, 45, 59, 62] {
            r.on(&Event::Progress(&Progress { elapsed: Duration::from_secs(elapsed), ..moving() }));
        }
        r.on(&Event::Failed { error: &denied("d/e"), kind: Kind::File });
        r.on(&Event::Refused { entry: &entry("d", Kind::Dir), refused: MetaMask::OWNER });
        r.on(&Event::Warned(&Warning::Stalled { seconds: 12, waiting_for: "read of d/f".into() }));
        self.item(Action::Create, Why::New, "d/f", Kind::File);
        r.on(&Event::Finished(&copied()));
        self
    }
}

#[test]
fn a_job_log_has_plan_progress_and_summary_on_standard_output() {
    let run = run(Options::default());
    run.play();
    insta::assert_snapshot!(run.out.read(), @"
    copies a into b
    00:00:31  12,345 of 37,760 files  1.20 of 4.05 GiB  15.5 MiB/s now, 39.6 mean  8 workers  1 retry  about 3 min 08 s left
    00:01:02  12,345 of 37,760 files  1.20 of 4.05 GiB  15.5 MiB/s now, 19.8 mean  8 workers  1 retry  about 3 min 08 s left
    Completed:   2024-05-01 09:42:33 +03:00 after 12.345 s
    Items:       37,761 (37,760 files, 1 directory)
    Created:     37,761 (37,760 files, 1 directory)
    Data:        234 MiB transferred, 245,440,000 bytes (6.35 KiB per file)
    Throughput:  19.0 MiB/s, 3,059 files/s
    Time:        walking 1.2 s (1%), reading 20 s (20%), writing 1 min 00 s (61%), metadata 17 s (17%), summed over workers
    Bottleneck:  writing the destination: 61% of the workers' time, with 8 workers and 1.2 of 2 processors busy
    ");
    insta::assert_snapshot!(run.err.read(), @"
    haul: d/e: open: permission denied
      try: chmod u+r it
    haul: warning: no progress for 12 s; waiting for read of d/f
    ");
}

#[test]
fn quiet_leaves_failures_and_warnings() {
    let quiet = run(Options { quiet: true, live: true, ..Options::default() });
    quiet.play();
    assert_eq!(quiet.out.read(), "");
    insta::assert_snapshot!(quiet.err.read(), @"
    haul: d/e: open: permission denied
      try: chmod u+r it
    haul: warning: no progress for 12 s; waiting for read of d/f
    ");
    let interrupted = run(Options { quiet: true, ..Options::default() });
    interrupted.renderer.on(&Event::Finished(&Report { ending: Ending::Interrupted, ..copied() }));
    assert_eq!(interrupted.err.read(), "haul: interrupted; run the same command again to resume\n");
}

#[test]
fn verbose_names_what_is_done_and_twice_says_why() {
    let first = |run: &Run| run.out.read().lines().filter(|l| !l.starts_with("00:")).take(4).collect::<Vec<_>>().join("\n");
    let once = run(Options { verbose: 1, ..Options::default() });
    insta::assert_snapshot!(first(once.play()), @"
    copies a into b
    mkdir       d/
    create      d/f
    Completed:   2024-05-01 09:42:33 +03:00 after 12.345 s
    ");
    let twice = run(Options { verbose: 2, ..Options::default() });
    insta::assert_snapshot!(first(twice.play()), @"
    copies a into b
    mkdir       missing at destination    d/
    tuned: 8 workers
    create      missing at destination    d/f
    ");
    let itemised = run(Options { itemize: true, ..Options::default() });
    insta::assert_snapshot!(first(itemised.play()), @"
    copies a into b
    cd+++++++++ d/
    >f+++++++++ d/f
    Completed:   2024-05-01 09:42:33 +03:00 after 12.345 s
    ");
}

#[test]
fn json_has_standard_output_to_itself() {
    let run = run(Options { json: true, live: true, ..Options::default() });
    run.play();
    let events: Vec<String> = run
        .out
        .read()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line)["event"].as_str().expect(line).to_string())
        .collect();
    let moments = ["progress"; 6];
    let expected = [&["started", "item", "tuned", "retried"], &moments[..], &["failed", "refused", "warned", "item", "finished"]].concat();
    assert_eq!(events, expected);
    let err = run.err.read();
    assert!(err.starts_with("copies a into b\n00:00:31  "), "{err}");
    assert!(!err.contains('\x1b'), "no live view");
}

#[test]
fn the_live_view_is_taken_away_before_anything_else_is_printed() {
    let run = run(Options { live: true, ..Options::default() });
    let r = &run.renderer;
    r.on(&Event::Started { sentence: "copies a into b" });
    r.on(&Event::Progress(&moving()));
    r.on(&Event::Progress(&moving()));
    r.on(&Event::Failed { error: &denied("d/e"), kind: Kind::File });
    let err = run.err.read();
    assert_eq!(err.matches("\x1b[4A\r").count(), 2, "redrawn once, erased once: {err:?}");
    assert!(err.ends_with("\x1b[4A\r\x1b[Jhaul: d/e: open: permission denied\n  try: chmod u+r it\n"), "{err:?}");
    r.on(&Event::Progress(&moving()));
    r.on(&Event::Finished(&copied()));
    assert!(run.err.read().ends_with("\x1b[4A\r\x1b[J"), "the cursor is back where the view began");
    r.on(&Event::Progress(&moving()));
    assert!(run.err.read().ends_with("\x1b[4A\r\x1b[J"), "nothing is drawn over the summary");
    assert!(!run.out.read().contains("00:01:30"), "no progress lines beside the view");
}

#[test]
fn after_twenty_failures_one_line_says_where_the_others_are() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let failed_to = Some(FailedTo { file: file.reopen().unwrap(), name: "failed.txt".into(), zero: false });
    let run = run(Options { failed_to, log: Some(log.reopen().unwrap()), ..Options::default() });
    for n in 0..30 {
        run.renderer.on(&Event::Failed { error: &denied(&format!("f{n}")), kind: Kind::File });
    }
    for path in ["#x", "a\nb", ""] {
        run.renderer.on(&Event::Failed { error: &denied(path), kind: Kind::File });
    }
    run.renderer.on(&Event::Failed { error: &Error::new(ErrorKind::Vanished, "open").at(b"gone"), kind: Kind::File });
    run.renderer.on(&Event::Finished(&copied()));
    let err = run.err.read();
    assert_eq!(err.matches("permission denied").count(), 20, "{err}");
    assert_eq!(err.matches("further errors are only counted; all names are in failed.txt").count(), 1, "{err}");
    assert!(err.contains("1 entry with a newline in the name omitted"), "{err}");
    let names = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(names, (0..30).map(|n| format!("f{n}\n")).collect::<String>() + "./#x\n");
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert_eq!(log.matches("permission denied").count(), 33);
    assert!(log.lines().all(|l| l.starts_with("2024-05-01 09:42:33 +03:00  ")), "{log}");
}

#[test]
fn the_list_of_failed_names_ends_them_with_a_zero_byte_on_request() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let failed_to = Some(FailedTo { file: file.reopen().unwrap(), name: "f".into(), zero: true });
    let run = run(Options { failed_to, ..Options::default() });
    run.renderer.on(&Event::Failed { error: &Error::new(ErrorKind::Io, "read").at(b"#a\n\xff"), kind: Kind::File });
    run.renderer.on(&Event::Finished(&copied()));
    assert_eq!(std::fs::read(file.path()).unwrap(), b"#a\n\xff\0");
}

#[test]
fn check_lists_differences_and_on_request_names_alone() {
    let differences = |run: &Run| {
        run.item(Action::Missing, Why::New, "a/b", Kind::File);
        run.item(Action::Extra, Why::Extra, "x", Kind::Dir);
        run.item(Action::Differs, Why::Size(MetaMask::NONE), "y", Kind::File);
        run.renderer.on(&Event::Finished(&copied()));
    };
    let lines = run(Options { mode: Mode::Check, ..Options::default() });
    differences(&lines);
    assert!(lines.out.read().starts_with("missing     a/b\nextra       x/\ndiffers     y\n"), "{}", lines.out.read());
    let names = run(Options { mode: Mode::Check, names: Some(false), ..Options::default() });
    differences(&names);
    assert_eq!(names.out.read(), "a/b\ny\n");
    assert!(names.err.read().contains("Completed:"), "the summary goes where people look");
    let zero = run(Options { mode: Mode::Check, names: Some(true), ..Options::default() });
    differences(&zero);
    assert_eq!(zero.out.read(), "a/b\0y\0");
}

#[test]
fn a_closed_pipe_ends_the_output_quietly_and_is_told_once() {
    let run = run(Options { verbose: 1, ..Options::default() });
    *run.out.closed.lock().unwrap() = Some(io::ErrorKind::BrokenPipe);
    run.play();
    assert_eq!(*run.gone.lock().unwrap(), 1);
    assert!(!run.err.read().contains("standard output"));
}

#[test]
fn an_output_that_cannot_be_written_is_named_once() {
    let run = run(Options::default());
    *run.out.closed.lock().unwrap() = Some(io::ErrorKind::StorageFull);
    run.play();
    assert_eq!(run.err.read().matches("haul: standard output: write: ").count(), 1, "{}", run.err.read());
    assert_eq!(*run.gone.lock().unwrap(), 0);
    *run.err.closed.lock().unwrap() = Some(io::ErrorKind::BrokenPipe);
    run.play();
}

#[test]
fn a_full_log_is_named_once_and_the_run_goes_on() {
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    let run = run(Options { log: Some(full), ..Options::default() });
    run.play();
    assert_eq!(run.err.read().matches("haul: --log: write: ").count(), 1, "{}", run.err.read());
}

#[test]
fn only_what_is_printed_is_asked_for() {
    use Action as A;
    let wants = |options: Options| {
        let run = run(options);
        [A::Create, A::Keep, A::Missing].map(|action| run.renderer.wants(action))
    };
    assert_eq!(wants(Options::default()), [false, false, true]);
    assert_eq!(wants(Options { dry: true, ..Options::default() }), [true, false, true]);
    assert_eq!(wants(Options { dry: true, quiet: true, ..Options::default() }), [false, false, false]);
    assert_eq!(wants(Options { verbose: 2, ..Options::default() }), [true, true, true]);
    assert_eq!(wants(Options { json: true, quiet: true, ..Options::default() }), [true, false, true]);
    assert_eq!(wants(Options { names: Some(false), quiet: true, ..Options::default() }), [false, false, true]);
}

#[test]
fn a_signal_gets_the_moment_in_a_line_even_when_quiet() {
    let run = run(Options { quiet: true, ..Options::default() });
    run.renderer.show_progress();
    run.renderer.on(&Event::Progress(&moving()));
    run.renderer.show_progress();
    let err = run.err.read();
    assert!(err.starts_with("no progress yet\n00:01:30  12,345 of 37,760 files"), "{err}");
}

#[test]
fn many_threads_never_mix_lines() {
    let run = run(Options { json: true, live: true, ..Options::default() });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let renderer = &run.renderer;
            scope.spawn(move || {
                for n in 0..500 {
                    let entry = Entry::bare(Name::new(&Dir::root(), format!("t{thread}n{n}").as_bytes()), Kind::File);
                    renderer.on(&Event::Item { action: Action::Create, why: Why::New, entry: &entry, dry: false });
                }
            });
        }
    });
    run.renderer.on(&Event::Finished(&copied()));
    let out = run.out.read();
    assert!(out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert_eq!(out.lines().count(), 2001);
}
