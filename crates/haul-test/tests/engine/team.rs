//! Several ranks that do one job: threads of this process, each with an engine, a tuner and opened stores of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::ErrorKind;
use haul_core::Remedy;
use haul_core::cancel::{Cancel, Stop};
use haul_core::engine::run;
use haul_core::event::{Event, Observer};
use haul_core::job::{Job, Mode, Pick, Root};
use haul_core::journal::{Begin, Identity, State};
use haul_core::report::{Ending, Report};
use haul_core::spec::{Deletion, MaxDelete};
use haul_core::store::Store;
use haul_core::team::{Team, Transport, threads};
use haul_stores::local::{Local, Options};
use haul_stores::memory::Memory;
use haul_test::fault::{Fault, Op, Rule, What};

use crate::support::{Diary, Run, assert_same, bounded, content, copying, go, job, put_hard_link};

/// What a rank has, and what it is to do.
type Rank<'a> = &'a dyn Fn(u32) -> (Job, Run);

/// The reports of all ranks, rank 0's first, which has the sums.
fn ranks(n: u32, of: Rank<'_>) -> Vec<Report> {
    each(threads(n).into_iter().map(Team::new).collect(), of)
}

fn each(teams: Vec<Team>, of: Rank<'_>) -> Vec<Report> {
    let parts: Vec<_> = teams.into_iter().zip(0..).map(|(team, rank)| (team, of(rank))).collect();
    bounded(Duration::from_secs(100), move || {
        let runs = parts.into_iter().map(|(team, (job, setup))| {
            let mut setup = setup.setup(Arc::new(Diary::default()) as Arc<dyn Observer>);
            setup.team = Some(team);
            std::thread::spawn(move || run(job, setup))
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

/// Listing takes so long that others come to their turn.
fn slow(store: &Memory) -> Arc<dyn Store> {
    let slow = Fault::new(store.again());
    slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(1))).always());
    Arc::new(slow)
}

fn slowly(source: &Memory, target: &Memory) -> Job {
    job(slow(source), Arc::new(target.again()))
}

/// Deep and shallow, empty and full directories, small and large files.
fn tree() -> Memory {
    let source = Memory::new();
    for a in 0..12usize {
        for b in 0..6usize {
            for c in 0..b {
                let path = format!("d{a}/e{b}/f{c}");
                source.put(format!("{path}/small"), content(&path, 1, 100 + a));
                source.put(format!("{path}/g/h/i{c}"), content(&path, 2, 10 * b));
            }
            source.put(format!("d{a}/e{b}/x"), content("x", a as u64, 300 * a));
        }
        source.put_dir(format!("d{a}/empty"));
    }
    source.put("large", content("large", 0, 700_000));
    source.put("d3/large", content("large", 3, 500_000));
    source
}

/// All of a report that must not depend on who did what.
fn counts(r: &Report) -> String {
    let names = (r.found, r.made, r.kept, r.attributes, r.deleted, r.hard_links, r.left, r.skipped, r.renamed);
    let rest = (r.ending, r.failed, r.vanished, r.missing, r.extra, r.differing, r.verified_files, r.verified_bytes);
    format!("{names:?} {rest:?} {} {}", r.bytes, r.file_bytes)
}

#[test]
fn any_number_of_ranks_makes_the_same_tree_and_reports_the_same() {
    let source = tree();
    let (alone, _) = go(copying(&source, &Memory::new()));
    for n in [1, 2, 5, 8] {
        let target = Memory::new();
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!(reports[0].ending, Ending::Complete, "{n} ranks: {:?}", reports[0]);
        assert_same(&source, &target);
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
        let others = reports[1..].iter().filter(|report| report.made.total() > 0).count();
        assert!(n == 1 || others > 0, "{n} ranks: {others} of them have helped");

        // Again: nothing is to do, and all say so.
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!((reports[0].made.total(), reports[0].kept.files), (0, alone.made.files), "{n} ranks");
        assert_eq!(reports[0].kept.dirs + 1, alone.found.dirs, "{n} ranks: all but the top");
    }
}

#[test]
fn the_names_of_one_large_directory_are_shared() {
    let source = Memory::new();
    for i in 0..6000 {
        source.put(format!("d/{i}"), content("name", i, 50));
    }
    put_hard_link(&source, "d/link", "d/77");
    for n in [2, 5] {
        let target = Memory::new();
        target.put("d/old", b"x");
        let slow = |_| {
            let slow = Fault::new(source.again());
            slow.add(Rule::new(Op::GetBundle, What::Delay(Duration::from_millis(1))).always());
            let mut sync = job(Arc::new(slow), Arc::new(target.again()));
            sync.deletion = Some(Deletion::default());
            (sync, Run::workers(1))
        };
        let reports = ranks(n, &slow);
        assert_eq!((reports[0].made.files, reports[0].found.files, reports[0].deleted.files), (6001, 6001, 1), "{n} ranks");
        assert_same(&source, &target);
        let helped = reports[1..].iter().filter(|report| report.made.files > 0).count();
        assert_eq!(helped as u32, n - 1, "{n} ranks");
    }
}

#[test]
fn deletes_come_after_everything_has_landed_and_not_at_all_if_something_failed_anywhere() {
    let source = tree();
    for n in [2, 5] {
        let target = Memory::new();
        go(copying(&source, &target));
        for i in 0..12 {
            target.put(format!("d{i}/e3/extra/a/b"), b"x");
            target.put(format!("d{i}/e4/f2/g/extra"), b"x");
        }
        source.put(format!("d5/e5/f4/new{n}"), b"new");
        let sync = |source: Arc<dyn Store>, most: Option<u64>| {
            let mut sync = job(source, Arc::new(target.again()));
            sync.deletion = Some(Deletion { most: most.map(MaxDelete::Count), ..Deletion::default() });
            sync
        };
        let before = target.paths();
        let failing = || {
            let fault = Fault::new(source.again());
            fault.add(Rule::new(Op::List, What::Delay(Duration::from_millis(1))).always());
            fault.add(Rule::new(Op::List, What::Fail(ErrorKind::Io, Remedy::None)).on("d7/e5/f0/g").always());
            Arc::new(fault)
        };
        let reports = ranks(n, &|_| (sync(failing(), None), Run::workers(2)));
        assert_eq!((reports[0].failed, reports[0].deleted.total()), (1, 0), "{n} ranks: {:?}", reports[0]);
        assert!(reports[0].deletes_skipped.is_some());
        let after = target.paths();
        assert!(before.iter().all(|path| after.contains(path)), "nothing was deleted");

        let reports = ranks(n, &|_| (sync(slow(&source), Some(47)), Run::workers(2)));
        assert_eq!((reports[0].ending, reports[0].deleted.total()), (Ending::TooManyDeletes, 0), "{n} ranks");
        let reports = ranks(n, &|_| (sync(slow(&source), Some(48)), Run::workers(2)));
        assert_eq!((reports[0].ending, reports[0].deleted.total()), (Ending::Complete, 48), "{n} ranks: {:?}", reports[0]);
        assert_same(&source, &target);
    }
}

#[test]
fn names_of_one_file_meet_whoever_finds_them() {
    for n in [1, 2, 5] {
        let (source, target) = (tree(), Memory::new());
        for i in 0..12 {
            let leader = format!("d{i}/e5/f0/small");
            for j in 0..4 {
                put_hard_link(&source, &format!("d{}/e{j}/link{i}", (i + 5 * j) % 12), &leader);
            }
        }
        put_hard_link(&source, "d11/e1/f0/g/large", "large");
        let (alone, _) = go(copying(&source, &Memory::new()));
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!((reports[0].hard_links, reports[0].failed), (49, 0), "{n} ranks: found {:?}", reports[0].found);
        assert_same(&source, &target);
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
        let reports = ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_eq!((reports[0].made.total(), reports[0].kept.files), (0, alone.made.files), "{n} ranks: {:?}", reports[0]);
    }
}

#[test]
fn a_check_of_many_ranks_finds_what_differs() {
    let (source, target) = (tree(), Memory::new());
    go(copying(&source, &target));
    target.put("d2/e2/f1/extra", b"x");
    source.put("d9/e5/f4/g/h/missing", b"x");
    target.put("d4/e4/f1/small", b"other");
    let check = || {
        let mut check = slowly(&source, &target);
        check.mode = Mode::Check;
        check
    };
    let (alone, _) = go(check());
    assert_eq!((alone.missing, alone.extra), (1, 1));
    for n in [2, 5] {
        let reports = ranks(n, &|_| (check(), Run::workers(2)));
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
    }
}

#[test]
fn a_move_of_many_ranks_verifies_and_leaves_nothing() {
    for n in [2, 5] {
        let (source, target, wanted) = (tree(), Memory::new(), tree());
        put_hard_link(&source, "d11/e1/other", "large");
        put_hard_link(&wanted, "d11/e1/other", "large");
        let mv = || {
            let mut mv = slowly(&source, &target);
            (mv.remove_source, mv.remove_dirs) = (true, true);
            mv
        };
        let reports = ranks(n, &|_| (mv(), Run::workers(2)));
        assert_eq!((reports[0].ending, reports[0].failed), (Ending::Complete, 0), "{n} ranks: {:?}", reports[0]);
        assert_same(&wanted, &target);
        assert!(source.paths().is_empty(), "{n} ranks: {:?}", source.paths().len());
        assert_eq!(reports[0].left.total(), 0);
        assert_eq!(reports[0].verified_files, reports[0].made.files - reports[0].hard_links, "{n} ranks");
    }
}

#[test]
fn directories_that_close_themselves_do_so_when_nobody_goes_through_them_any_more() {
    for n in [2, 5] {
        let (source, target) = (tree(), Memory::new());
        for i in 0..12 {
            let mut entry = source.entry(format!("d{i}")).unwrap();
            entry.mode = 0o500;
            let spec = haul_core::store::MetaSpec { name: &entry.name.clone(), entry: &entry, keep: haul_core::entry::MetaMask::MODE };
            source.set_meta(&[spec]).pop().unwrap().unwrap();
        }
        ranks(n, &|_| (slowly(&source, &target), Run::workers(2)));
        assert_same(&source, &target);
    }
}

#[test]
fn a_disk_that_is_full_at_one_rank_ends_the_job_of_all() {
    let (source, target) = (tree(), Memory::new());
    let of = |rank| {
        let full = Fault::new(target.again());
        if rank == 1 {
            full.add(Rule::new(Op::PutBundle, What::NoSpace).always());
            full.add(Rule::new(Op::Create, What::NoSpace).always());
        }
        (job(slow(&source), Arc::new(full)), Run::workers(2))
    };
    let reports = ranks(3, &of);
    for (rank, report) in reports.iter().enumerate() {
        assert_eq!(report.ending, Ending::Stopped, "rank {rank}");
        let reason = &report.failures[0].reason;
        assert!(rank == 1 || reason.contains("rank 1 on "), "rank {rank}: {reason}");
    }
    assert!(reports[0].failed_kinds.contains(&ErrorKind::NoSpace), "{:?}", reports[0].failures);
}

/// The messages of a rank that is killed after so many of them.
struct Dying {
    inside: Arc<dyn Transport>,
    left: std::sync::atomic::AtomicI64,
}

impl Dying {
    fn lives(&self) -> haul_core::Result<()> {
        match self.left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) > 0 {
            true => Ok(()),
            false => Err(haul_core::Error::new(ErrorKind::Broken, "send").because("killed")),
        }
    }
}

impl Transport for Dying {
    fn rank(&self) -> u32 {
        self.inside.rank()
    }
    fn ranks(&self) -> u32 {
        self.inside.ranks()
    }
    fn send(&self, to: u32, message: Vec<u8>) -> haul_core::Result<()> {
        self.lives()?;
        self.inside.send(to, message)
    }
    fn receive(&self, wait: Duration) -> haul_core::Result<Option<(u32, Vec<u8>)>> {
        let message = self.inside.receive(wait)?;
        if message.is_some() {
            self.lives()?;
        }
        Ok(message)
    }
}

#[test]
fn a_rank_that_dies_ends_the_job_and_is_named() {
    for most in [1, 6, 12] {
        let (source, target) = (tree(), Memory::new());
        let mut teams: Vec<Team> = threads(4).into_iter().map(Team::new).collect();
        let inside = teams[2].transport.clone();
        teams[2].transport = Arc::new(Dying { inside, left: most.into() });
        teams.iter_mut().for_each(|team| team.silence = Duration::from_secs(2));
        let reports = each(teams, &|_| (slowly(&source, &target), Run::workers(2)));
        for rank in [0, 1, 3] {
            assert_eq!(reports[rank].ending, Ending::Stopped, "{most}: rank {rank}: {:?}", reports[rank]);
            let reasons: Vec<&str> = reports[rank].failures.iter().map(|failure| &failure.reason[..]).collect();
            assert!(reasons.iter().any(|reason| reason.contains("rank 2")), "{most}: rank {rank}: {reasons:?}");
        }
    }
}

/// One job in a state directory, with journals; `stop` ends it when a rank has written so many times.
fn with_journals(source: &Memory, target: &Memory, state: &std::path::Path, n: u32, stop: Option<u64>) -> Report {
    let here = haul_core::journal::Here::find();
    let state = State::open_as(state.to_path_buf(), here).unwrap();
    let identity = Identity { sources: vec!["memory".into()], target: "memory".into(), ..Identity::default() };
    let dir = state.begin(&identity, Begin::default()).unwrap();
    let first = Mutex::new(Some(dir.journal().unwrap()));
    let cancels: Vec<Cancel> = (0..n).map(|_| Cancel::default()).collect();
    let reports = ranks(n, &|rank| {
        let (journal, past) = match rank {
            0 => first.lock().unwrap().take().unwrap(),
            _ => state.join(&identity, rank, false).unwrap(),
        };
        let fault = Fault::new(target.again());
        if let Some(stop) = stop {
            fault.add(Rule::new(Op::Write, What::Fail(ErrorKind::Broken, Remedy::None)).nth(stop).always());
        }
        let slow = Fault::new(source.again());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(2))).always());
        let cancel = cancels[rank as usize].clone();
        (job(Arc::new(slow), Arc::new(fault)), Run { journal, past, cancel, ..Run::workers(1) })
    });
    if reports[0].ending == Ending::Complete {
        dir.finish("done").unwrap();
    }
    reports.into_iter().next().unwrap()
}

#[test]
fn a_job_that_was_stopped_goes_on_with_another_number_of_ranks() {
    let source = Memory::new();
    for i in 0..24 {
        let path = format!("d{i}/large");
        source.put(&path, content(&path, 0, 600_000));
        source.put(format!("d{i}/small"), b"small");
    }
    for (first, second) in [(3, 1), (1, 4), (4, 2)] {
        let (target, state) = (Memory::new(), tempfile::tempdir().unwrap());
        let report = with_journals(&source, &target, state.path(), first, Some(35));
        assert_eq!(report.ending, Ending::Stopped, "{report:?}");
        let report = with_journals(&source, &target, state.path(), second, None);
        assert_eq!((report.ending, report.failed), (Ending::Complete, 0), "{first} then {second}: {report:?}");
        assert!(report.resumed_bytes > 0, "{first} then {second}: {report:?}");
        assert_eq!(report.resumed_bytes + report.bytes, report.file_bytes, "{first} then {second}");
        assert_same(&source, &target);
        assert_eq!(target.sessions(), 0, "nothing is left over");
    }
}

fn chunked(source: &Memory, target: &Memory, fault: impl Fn(&Fault)) -> (Job, Run) {
    let (from, to) = (Fault::new(source.again()), Fault::new(target.again()));
    from.add(Rule::new(Op::Read, What::Delay(Duration::from_millis(2))).always());
    fault(&to);
    (job(Arc::new(from), Arc::new(to)), Run::workers(1))
}

#[test]
fn chunks_of_one_large_file_are_moved_by_all_and_committed_by_one() {
    let source = Memory::new();
    source.put("large", content("large", 0, 200 * (64 << 10) + 77));
    for n in [1, 2, 5] {
        for verify in [false, true] {
            let target = Memory::new().with(|caps| caps.writers_per_file = 4);
            let of = |_| {
                let (mut job, run) = chunked(&source, &target, |_| {});
                job.verify = verify;
                (job, run)
            };
            let reports = ranks(n, &of);
            assert_eq!((reports[0].ending, reports[0].made.files, reports[0].failed), (Ending::Complete, 1, 0), "{:?}", reports[0]);
            assert_eq!(reports[0].bytes, reports[0].file_bytes, "each byte moved once");
            assert_same(&source, &target);
            assert!(reports[1..].iter().all(|report| report.bytes > 0), "{n} ranks: all have helped");
            assert_eq!(target.sessions(), 0);
        }
    }
}

#[test]
fn what_a_rank_cannot_move_of_a_file_its_owner_does() {
    let source = Memory::new();
    source.put("large", content("large", 0, 120 * (64 << 10)));
    for op in [Op::Attach, Op::Write] {
        let target = Memory::new().with(|caps| caps.writers_per_file = 4);
        let of = |rank| {
            chunked(&source, &target, |fault| {
                if rank > 0 {
                    fault.add(Rule::new(op, What::Fail(ErrorKind::Io, Remedy::None)).nth(if op == Op::Write { 5 } else { 1 }).always());
                }
            })
        };
        let reports = ranks(3, &of);
        assert_eq!((reports[0].ending, reports[0].made.files, reports[0].failed), (Ending::Complete, 1, 0), "{:?}", reports[0]);
        assert_same(&source, &target);
    }
}

#[test]
fn lists_of_names_and_of_paths_are_shared_too() {
    let source = tree();
    for n in [1, 3] {
        let target = Memory::new();
        let named = |_| {
            let mut named = slowly(&source, &target);
            named.roots[0].pick = Pick::Names([b"d1".to_vec(), b"d4".to_vec(), b"large".to_vec()].into());
            (named, Run::workers(2))
        };
        let (alone, _) = go(named(0).0);
        let copied = target.paths();
        assert_eq!(alone.failed, 0);
        let target = Memory::new();
        let named = |_| {
            let mut job = slowly(&source, &target);
            job.roots[0].pick = Pick::Names([b"d1".to_vec(), b"d4".to_vec(), b"large".to_vec()].into());
            (job, Run::workers(2))
        };
        let reports = ranks(n, &named);
        assert_eq!(counts(&reports[0]), counts(&alone), "{n} ranks");
        assert_eq!(target.paths(), copied);
    }
}

#[test]
fn the_first_of_two_sources_wins_whoever_copies_them() {
    let (first, second) = (tree(), tree());
    for i in 0..12 {
        second.put(format!("d{i}/e5/f4/small"), b"of the second");
        second.put(format!("d{i}/e5/f4/only"), b"of the second");
    }
    for n in [1, 4] {
        let target = Memory::new();
        let both = |_| {
            let mut job = slowly(&first, &target);
            job.roots.push(Root::new(slow(&second), Pick::Contents));
            (job, Run::workers(2))
        };
        let reports = ranks(n, &both);
        assert_eq!((reports[0].failed, reports[0].ending), (0, Ending::Complete));
        for i in 0..12 {
            let path = format!("d{i}/e5/f4/small");
            assert_eq!(target.get(&path), first.get(&path), "{n} ranks: {path}");
            assert_eq!(target.get(format!("d{i}/e5/f4/only")).as_deref(), Some(&b"of the second"[..]));
        }
    }
}

#[test]
fn a_signal_at_one_rank_stops_all() {
    let (source, target) = (tree(), Memory::new());
    let cancel = Cancel::default();
    let at_one = cancel.clone();
    let of = move |rank| {
        let mut run = Run::workers(1);
        let slow = Fault::new(source.again());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(20))).always());
        if rank == 2 {
            run.cancel = at_one.clone();
        }
        (job(Arc::new(slow), Arc::new(target.again())), run)
    };
    let signal = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.set(Stop::Signal);
    });
    let reports = ranks(3, &of);
    signal.join().unwrap();
    assert!(
        reports.iter().all(|report| report.ending == Ending::Interrupted),
        "{:?}",
        reports.iter().map(|r| r.ending).collect::<Vec<_>>()
    );
    assert!(reports.iter().all(|report| report.failed == 0));
}

#[test]
fn each_rank_opens_the_same_directories_of_this_machine() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    std::fs::create_dir(path("b")).unwrap();
    for i in 0..300 {
        let dir = path("a").join(format!("{}/{}", i % 17, i % 5));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("f{i}")), content("local", i, 50 + i as usize)).unwrap();
    }
    std::fs::write(path("a/large"), content("large", 1, 3_000_000)).unwrap();
    std::fs::hard_link(path("a/large"), path("a/3/large")).unwrap();
    std::os::unix::fs::symlink("large", path("a/16/link")).unwrap();
    let open = |name: &str| -> Arc<dyn Store> {
        let slow = Fault::new(Local::open(&path(name), Options::default()).unwrap());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(2))).always());
        Arc::new(slow)
    };
    let reports = ranks(4, &|_| (job(open("a"), open("b")), Run::workers(2)));
    assert_eq!((reports[0].ending, reports[0].failed, reports[0].made.files), (Ending::Complete, 0, 302), "{:?}", reports[0]);
    assert_eq!(reports[0].hard_links, 1);
    assert!(reports[1..].iter().any(|report| report.made.files > 0));
    haul_test::compare::assert_same(
        &path("a"),
        &path("b"),
        haul_test::compare::What { hard_links: true, ..haul_test::compare::What::USUAL },
    );
}

/// Keeps what the display of a rank would show last.
#[derive(Default)]
struct Last(Mutex<(u64, u64, u64)>);

impl Observer for Last {
    fn on(&self, event: &Event<'_>) {
        if let Event::Progress(p) = event {
            *self.0.lock().unwrap() = (p.found, p.done_files, p.moved_bytes);
        }
    }
}

#[test]
fn a_rank_that_waits_is_not_stalled_and_the_first_shows_what_all_do() {
    let source = Memory::new();
    for i in 0..40 {
        source.put(format!("d{i}/f"), content("f", i, 1000));
    }
    let target = Memory::new();
    let teams: Vec<Team> = threads(3).into_iter().map(|transport| Team { transport, silence: Duration::from_secs(4) }).collect();
    let last = Arc::new(Last::default());
    let shown = last.clone();
    let runs = teams.into_iter().zip(0..).map(|(team, rank)| {
        let slow = Fault::new(source.again());
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(20))).always());
        // One directory takes much longer than ranks may be silent for, when they have something to do.
        slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(2500))).on("d7").always());
        let mut copy = job(Arc::new(slow), Arc::new(target.again()));
        copy.timeout = Some(Duration::from_millis(3500));
        let observer: Arc<dyn Observer> = if rank == 0 { shown.clone() } else { Arc::new(Diary::default()) };
        let mut setup = Run::workers(1).setup(observer);
        setup.team = Some(team);
        std::thread::spawn(move || run(copy, setup))
    });
    let runs: Vec<_> = runs.collect();
    let reports: Vec<Report> = bounded(Duration::from_secs(60), move || runs.into_iter().map(|run| run.join().unwrap()).collect());
    assert!(reports.iter().all(|report| report.ending == Ending::Complete), "{:?}", reports[0]);
    assert_same(&source, &target);
    let (found, done, moved) = *last.0.lock().unwrap();
    assert_eq!((found, done, moved), (81, 40, 40_000));
}
