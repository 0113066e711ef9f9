use super::*;

fn sh(script: &str, limit: Duration, cancel: &Cancel) -> Ran {
    run(&["sh".into(), "-c".into(), script.into()], &[], Bounds { limit, cancel, group: &Group::default() }).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_ending_comes_with_its_output() {
    let ran = sh("echo out; echo err >&2; exit 3", LONG, &Cancel::default());
    assert_eq!((ran.ending, &ran.stdout[..], &ran.stderr[..]), (Ending::Exit(3), &b"out\n"[..], &b"err\n"[..]));
    assert!(ran.peak_below > 0 && ran.peak.is_none_or(|peak| peak <= ran.peak_below));
    assert_eq!(sh("kill -9 $$", LONG, &Cancel::default()).ending, Ending::Signal(9));
    let missing =
        run(&["no-such-program".into()], &[], Bounds { limit: LONG, cancel: &Cancel::default(), group: &Group::default() }).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn time_that_is_over_ends_the_whole_group() {
    // The child of the shell would hold the pipe for a minute.
    let ran = sh("trap '' TERM; sleep 60 & wait; sleep 60", Duration::from_millis(100), &Cancel::default());
    assert_eq!(ran.ending, Ending::Timeout);
    let cancel = Cancel::default();
    cancel.set(haul_core::cancel::Stop::Signal);
    assert_eq!(sh("sleep 60", LONG, &cancel).ending, Ending::Cancelled);
}

#[test]
fn what_cannot_be_killed_is_given_up() {
    let cancel = Cancel::default();
    let bounds = Bounds { limit: Duration::from_millis(10), cancel: &cancel, group: &Group::default() };
    let timeouts = Timeouts { grace: Duration::from_millis(10), killed: Duration::from_millis(10) };
    let argv = ["sleep".into(), "600".into()];
    let mut child = begin(&argv, &[], Stdio::null(), None).unwrap();
    let (_, ending) = (child.stdout.take(), child.stderr.take());
    let children = [child];
    let sent = Mutex::new(Vec::new());
    // Nothing that is sent reaches it.
    let waited = wait(&children, Instant::now(), bounds, timeouts, &|signal| sent.lock().unwrap().push(signal), &mut [0]);
    assert!(waited.stopped == Some(Ending::Timeout) && waited.reaped.len() == 1 && waited.reaped[0].is_none());
    assert_eq!(*sent.lock().unwrap(), [libc::SIGTERM, libc::SIGKILL]);
    drop(ending);
    signal_group(children[0].id().cast_signed(), libc::SIGKILL);
}

#[test]
fn programs_read_each_other() {
    let argv = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut input = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut input, b"c\nb\na\n").unwrap();
    std::io::Seek::rewind(&mut input).unwrap();
    let (never, group) = (Cancel::default(), Group::default());
    let long = Bounds { limit: LONG, cancel: &never, group: &group };
    let ran = pipe(&[argv(&["sort"]), argv(&["head", "-n1"])], &[], Some(input), long).unwrap();
    assert_eq!((ran.ending, &ran.stdout[..]), (Ending::Exit(0), &b"a\n"[..]));
    // The reader fails and the writer dies of it: the reader's end counts.
    let ran = pipe(&[argv(&["yes"]), argv(&["sh", "-c", "echo no >&2; exit 4"])], &[], None, long).unwrap();
    assert_eq!((ran.ending, &ran.stderr[..]), (Ending::Exit(4), &b"no\n"[..]));
    let missing = pipe(&[argv(&["sleep", "60"]), argv(&["no-such-program"])], &[], None, long).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let ran = pipe(&[argv(&["sleep", "60"]), argv(&["cat"])], &[], None, Bounds { limit: Duration::from_millis(100), ..long }).unwrap();
    assert_eq!(ran.ending, Ending::Timeout);
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let ran = sh("yes x | head -c 1000000; echo end", LONG, &Cancel::default());
    assert_eq!(ran.stdout.len(), KEPT);
    assert!(ran.stdout.ends_with(b"end\n"));
}

#[test]
fn memory_is_that_of_the_program_and_not_of_who_began_it() {
    let own = own_peak();
    assert!(own > 1 << 20);
    let large = (own >> 20) + 100;
    // dd's block is memory of its own.
    let ran = sh(&format!("exec dd if=/dev/zero of=/dev/null bs={large}M count=1"), LONG, &Cancel::default());
    assert!(ran.peak.is_some_and(|peak| peak > (large << 20)), "{:?} of {large} MiB", ran.peak);
    // A small one does not count as large as this process; it lives long enough to be seen.
    let ballast = std::hint::black_box(vec![1u8; 64 << 20]);
    let small = sh("sleep 0.3", LONG, &Cancel::default());
    assert!(small.peak.is_some_and(|peak| peak > 0 && peak < 32 << 20), "{:?} beside {}", small.peak, ballast.len());
}
