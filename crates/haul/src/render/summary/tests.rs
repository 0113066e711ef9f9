use haul_core::error::Error;

use super::super::fixtures::copied;
use super::*;

fn context(mode: Mode) -> Context {
    Context {
        mode,
        started: "2024-05-01 09:42:21 +03:00".into(),
        completed: "2024-05-01 09:42:33 +03:00".into(),
        command: Some("haul cp -a data /scratch/data".into()),
        ..Context::default()
    }
}

fn shown(report: &Report, context: &Context) -> String {
    summary(report, context).join("\n")
}

#[test]
fn a_plain_copy_is_short() {
    insta::assert_snapshot!(shown(&copied(), &context(Mode::Copy)), @r"
    Completed:   2024-05-01 09:42:33 +03:00 after 12.345 s
    Items:       37,761 (37,760 files, 1 directory)
    Created:     37,761 (37,760 files, 1 directory)
    Data:        234 MiB transferred, 245,440,000 bytes (6.35 KiB per file)
    Throughput:  19.0 MiB/s, 3,059 files/s
    Time:        walking 1.2 s (1%), reading 20 s (20%), writing 1 min 00 s (61%), metadata 17 s (17%), summed over workers
    Bottleneck:  writing the destination: 61% of the workers' time, with 8 workers and 1.2 of 2 processors busy
    ");
}

#[test]
fn stat_prints_everything() {
    let stat = Context { stat: true, ..context(Mode::Copy) };
    insta::assert_snapshot!(shown(&copied(), &stat), @r"
    Started:     2024-05-01 09:42:21 +03:00
    Completed:   2024-05-01 09:42:33 +03:00
    Seconds:     12.345
    Items:       37,761 (37,760 files, 1 directory)
    Created:     37,761 (37,760 files, 1 directory)
    Data:        234 MiB transferred, 245,440,000 bytes (6.35 KiB per file)
    Throughput:  19.0 MiB/s, 3,059 files/s
    Workers:     8 at the end, 16 at peak
    Time:        98.500 worker seconds
      walking           1.200 s    1%
      reading          20.100 s   20%
      writing          60.200 s   61%
      metadata         17.000 s   17%
      idle              0.000 s
      processor        14.800 s
    Bottleneck:  writing the destination: 61% of the workers' time, with 8 workers and 1.2 of 2 processors busy
    ");
}

#[test]
fn a_sync_with_deletes_and_failures() {
    let mut r = copied();
    r.made = Kinds { files: 12, links: 2, ..Kinds::default() };
    r.kept = Kinds { files: 37_700, dirs: 1, ..Kinds::default() };
    r.hard_links = 2;
    r.attributes = 5;
    r.options_set = vec![("metadata", 5), ("tags", 2)];
    r.deleted = Kinds { files: 3, dirs: 1, ..Kinds::default() };
    r.skipped.specials = 1;
    r.refused = vec![("owner", 12_034), ("mode", 3), ("xattr", 1)];
    r.denied = vec![("mode", 2)];
    r.retries = 4;
    r.bytes = 52_000;
    r.file_bytes = 78_000;
    for n in 0..25 {
        r.fail(&Error::new(ErrorKind::Denied, "open").at(format!("a/{n}\x1b").as_bytes()).hint("chmod u+r it"));
    }
    r.fail(&Error::new(ErrorKind::Vanished, "open").at(b"gone"));
    let text = shown(&r, &context(Mode::Sync));
    // The failures in the middle are all alike.
    let text: Vec<&str> = text.lines().filter(|l| !(l.starts_with("  a/1") || l.starts_with("    try"))).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    Result:      completed with errors, listed below
    Started:     2024-05-01 09:42:21 +03:00
    Completed:   2024-05-01 09:42:33 +03:00
    Seconds:     12.345
    Items:       37,761 (37,760 files, 1 directory)
    Created:     14 (12 files, 2 symlinks), 2 of them as hard links
    Unchanged:   37,701 (37,700 files, 1 directory)
    Attributes:  set on 5 entries (metadata, tags of 2)
    Deleted:     4 (3 files, 1 directory)
    Skipped:     1 special file (copied only with -D or -a)
    Vanished:    1 after they were listed
    Errors:      25
    Data:        50.8 KiB transferred, 52,000 bytes
    File sizes:  76.2 KiB (7.62 KiB per file)
    Throughput:  4.11 KiB/s, 0.97 files/s
    Retries:     4
    Workers:     8 at the end, 16 at peak
    Time:        walking 1.2 s (1%), reading 20 s (20%), writing 1 min 00 s (61%), metadata 17 s (17%), summed over workers
    Not set:     owner of 12,034 entries: needs root
    Not set:     mode of 2 entries: not permitted
    Not set:     mode of 1 entry: not supported by the destination
    Not set:     xattr of 1 entry: not supported by the destination, or needs root
    Bottleneck:  writing the destination: 61% of the workers' time, with 8 workers and 1.2 of 2 processors busy

    First failures:
      a/0\x1b: open: permission denied
      a/2\x1b: open: permission denied
      a/3\x1b: open: permission denied
      a/4\x1b: open: permission denied
      a/5\x1b: open: permission denied
      a/6\x1b: open: permission denied
      a/7\x1b: open: permission denied
      a/8\x1b: open: permission denied
      a/9\x1b: open: permission denied
      and 6 more; --failed-to FILE writes all names

    Fix the errors and rerun; finished files are skipped:
      haul cp -a data /scratch/data
    ");
    let named = Context { failed_to: Some("all names are in failed.txt".into()), ..context(Mode::Sync) };
    assert!(shown(&r, &named).contains("  and 6 more; all names are in failed.txt\n"));
}

#[test]
fn resumed_and_verified() {
    let mut r = copied();
    r.resumed_bytes = 1 << 30;
    r.file_bytes = r.bytes + r.resumed_bytes;
    r.verified_files = 37_760;
    r.verified_bytes = r.file_bytes;
    r.proof = Some("read again past the page cache");
    let text = shown(&r, &context(Mode::Copy));
    let parts = "\
Data:        234 MiB transferred, 245,440,000 bytes
File sizes:  1.23 GiB (34.1 KiB per file)
Resumed:     1.00 GiB from an earlier run
Verified:    37,760 files, 1.23 GiB: read again past the page cache
";
    assert!(text.contains(parts), "{text}");
}

#[test]
fn interrupted_says_how_to_go_on() {
    let mut r = copied();
    r.ending = Ending::Interrupted;
    r.made.files = 12_345;
    let text = shown(&r, &context(Mode::Copy));
    assert!(text.starts_with("Result:      interrupted; run the same command again to resume\nStarted:"), "{text}");
    assert!(text.contains("\nData:        234 MiB transferred, 245,440,000 bytes (19.4 KiB per file)\n"), "{text}");
    assert!(
        text.ends_with("\n\nTransferred data is kept. To resume, run the same command again:\n  haul cp -a data /scratch/data"),
        "{text}"
    );
    r.ending = Ending::Stopped;
    r.fail(&Error::new(ErrorKind::NoSpace, "write").at(b"a/b"));
    let text = shown(&r, &context(Mode::Copy));
    assert!(
        text.ends_with("Transferred data is kept. Once there is space, run the same command again:\n  haul cp -a data /scratch/data"),
        "{text}"
    );
    // Standard input cannot be read again.
    let stream = Context { starts_over: true, ..context(Mode::Copy) };
    assert!(!shown(&r, &stream).contains("kept"));
    for ending in [Ending::Interrupted, Ending::Deadline, Ending::Timeout] {
        r.ending = ending;
        let text = shown(&r, &stream);
        assert!(!text.contains("resume") && !text.contains("kept") && !text.contains("again"), "{text}");
    }
}

#[test]
fn a_source_on_a_read_only_file_system_is_named() {
    let mut r = copied();
    r.ending = Ending::Stopped;
    r.fail(&Error::new(ErrorKind::ReadOnly, "remove").at(b"a/b"));
    assert!(shown(&r, &context(Mode::Copy)).contains("Once the destination is writable"));
    r.read_only_source = true;
    assert!(shown(&r, &context(Mode::Copy)).contains("Once the source is writable"));
}

#[test]
fn one_of_a_kind_is_not_many() {
    let mut r = Report { elapsed: Duration::from_millis(2), bytes: 1, file_bytes: 1, ..Report::default() };
    (r.found.files, r.made.files, r.renamed.files) = (2, 1, 1);
    // Each kind of work takes too little to be shown.
    (r.times.walking, r.times.opening, r.times.writing) =
        (Duration::from_micros(400), Duration::from_micros(400), Duration::from_micros(400));
    let text = shown(&r, &context(Mode::Copy));
    assert!(text.contains("Renamed:     1 file\n") && text.contains("1 B transferred, 1 byte\n") && !text.contains("Time:"), "{text}");
}

#[test]
fn a_dry_run_ends_with_its_name() {
    let mut r = Report { dry: true, ..copied() };
    r.bytes = 0;
    r.deleted.files = 2;
    insta::assert_snapshot!(shown(&r, &context(Mode::Sync)), @r"
    Completed:   2024-05-01 09:42:33 +03:00 after 12.345 s
    Items:       37,761 (37,760 files, 1 directory)
    Create:      37,761 (37,760 files, 1 directory)
    Delete:      2 files
    Data:        234 MiB to transfer (6.35 KiB per file)
    DRY RUN: nothing was copied
    ");
}

#[test]
fn a_check_counts_what_differs() {
    let mut r = copied();
    r.kept = Kinds { files: 37_740, dirs: 1, ..Kinds::default() };
    r.made = Kinds::default();
    (r.bytes, r.file_bytes) = (0, 0);
    r.missing = 12;
    r.extra = 3;
    r.differing = 8;
    let text = shown(&r, &context(Mode::Check));
    let counts =
        "Identical:   37,741 (37,740 files, 1 directory)\nMissing:     12\nExtra:       3\nDiffering:   8\nThroughput:  3,059 entries/s\n";
    assert!(text.contains(counts) && text.ends_with("\nNot identical: 23 differences."), "{text}");
    (r.missing, r.extra, r.differing) = (0, 0, 0);
    assert!(shown(&r, &context(Mode::Check)).ends_with("\nIdentical."));
}

#[test]
fn a_command_line_can_be_pasted() {
    let arguments: [&[u8]; 6] = [b"haul", b"cp", b"a b", b"it's", b"", b"x\x1b\xff"];
    assert_eq!(command_line(arguments.into_iter()), "haul cp 'a b' 'it'\\''s' '' $'x\\x1b\\xff'");
}
