//! The fault store: without rules it is the store inside; with them it fails as told.

use haul_core::store::ServerSideOp;
use std::time::Duration;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::cancel::{Cancel, Stop};
use haul_core::entry::{Dir, MetaMask};
use haul_core::store::{Flow, Store};
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Gate, Op, Rule, What};
use haul_test::memory::Memory;
use haul_test::store_suite;
use haul_test::suite::Fixture;
use haul_test::suite::tools::*;

store_suite!(no_faults, || Fixture::of_memory(Memory::new()).wrapped(Fault::round));

store_suite!(no_faults_round_objects, || Fixture::of_memory(Memory::objects()).wrapped(Fault::round));

// Rules that change nothing: every call then goes by the ways that rules take.
store_suite!(watched, || {
    Fixture::of_memory(Memory::new()).wrapped(|store| {
        let fault = Fault::round(store);
        for &op in Op::ALL {
            fault.add(Rule::new(op, What::DelayEach(Duration::ZERO)).always());
        }
        fault
    })
});

fn with_files(paths: &[&str]) -> (Memory, Fault) {
    let memory = Memory::new();
    for path in paths {
        memory.put(path, b"0123456789");
    }
    (memory.again(), Fault::new(memory))
}

#[test]
fn every_operation_fails_as_told_the_nth_time_and_only_then() {
    for &op in Op::ALL {
        let (_, store) = with_files(&["a", "b", "c"]);
        store.add(Rule::new(op, What::Fail(ErrorKind::Denied, Remedy::Again)).nth(2));
        let outcomes: Vec<bool> = (0..4).map(|_| denied(&store, op)).collect();
        // There is no way for `forget` to fail.
        assert_eq!(outcomes, [false, op != Op::Forget, false, false], "{op:?}");
    }
}

/// Makes one call of `op` and says whether it failed as the rule says.
fn denied(store: &Fault, op: Op) -> bool {
    let outcome = call(store, op);
    match outcome {
        Ok(()) => false,
        Err(e) if e.kind() == ErrorKind::Denied && e.remedy() == Remedy::Again => true,
        // Calls on what is absent or denied by the store inside: reached it, which is what counts here.
        Err(e) => {
            assert!(!e.to_string().contains("made to fail"), "{op:?}: {e}");
            false
        }
    }
}

fn call(store: &Fault, op: Op) -> haul_core::Result<()> {
    let a = name("a");
    let entry = file(a.clone(), 10);
    let spec = spec(&entry, 100);
    let token = haul_core::store::Token(b"x"[..].into());
    let listed = || store.stat(&a, MetaMask::NONE);
    let chunk = haul_core::store::Chunk { index: 0, at: 0..10 };
    let sink = || store.create(&a, &spec);
    let mut one = bundle(vec![(entry.clone(), b"0123456789".to_vec())], false);
    let item = |bundle: Bundle| match bundle.items.into_iter().next().map(|item| item.outcome) {
        Some(Outcome::Failed(e)) => Err(e),
        _ => Ok(()),
    };
    match op {
        Op::Stat => store.stat(&a, MetaMask::NONE).map(drop),
        Op::StatMany => match store.stat_many(&Dir::root(), &[b"a"], MetaMask::NONE, false).remove(0) {
            haul_core::store::Found::Failed(e) => Err(e),
            _ => Ok(()),
        },
        Op::List => store.list(&Dir::root(), &mut |_| Flow::Go),
        Op::ListEntry => {
            let mut first = Ok(());
            store.list(&Dir::root(), &mut |entry| {
                first = entry.map(drop);
                Flow::Stop
            })?;
            first
        }
        Op::Open => store.open(&listed()?, false).map(drop),
        Op::Create => sink().map(drop),
        Op::Attach => store.extensions().unfinished.attach(&a, &token, &spec).map(drop),
        Op::Abandon => store.extensions().unfinished.abandon(&a, &token),
        Op::GetBundle => {
            one.items[0].entry = listed()?;
            one.items[0].outcome = Outcome::Listed;
            store.get_bundle(&mut one);
            item(one)
        }
        Op::PutBundle => {
            store.put_bundle(&mut one);
            item(one)
        }
        Op::MakeDirs => store.make_dirs(&[(&dir("d"), 0o755)]).remove(0).map(drop),
        Op::MakeNode => {
            store.make_node(&name("n"), &haul_core::entry::Entry::bare(name("n"), haul_core::entry::Kind::Fifo), spec.keep).map(drop)
        }
        Op::MakeHardLink => store.make_hard_link(&name("h"), &a),
        Op::SetMeta => set(store, &entry, MetaMask::MTIME).map(drop),
        Op::ReadXattrs => store.read_xattrs(&mut [entry.clone()], MetaMask::XATTR).remove(0),
        Op::Remove => remove(store, &file(name("none"), 0)),
        Op::Rename => store.rename(&a, &a, true),
        Op::Take => {
            store.extensions().server_side.perform(store, &listed()?, &name("copy"), ServerSideOp::Copy(&spec, &|_| Ok(()))).map(drop)
        }
        Op::Digest => store.extensions().digests.digest(&listed()?, haul_core::hash::Algorithm::Md5).map(drop),
        Op::Sync => store.extensions().system.sync(&[&a]),
        Op::Reopen => store.reopen(&a).map(drop),
        Op::Space => store.extensions().system.space().map(drop),
        Op::Forget => {
            store.extensions().system.forget(&Dir::root());
            Ok(())
        }
        Op::Read => read(&*store.open(&listed()?, false)?, 0..10).map(drop),
        Op::ReadBack => read(&*store.reopen(&a)?, 0..10).map(drop),
        Op::Stamp => store.open(&listed()?, false)?.stamp().map(drop),
        Op::Data => store.open(&listed()?, false)?.data(0..10).map(drop),
        Op::Xattrs => store.open(&listed()?, false)?.xattrs(MetaMask::XATTR).map(drop),
        Op::Write => sink()?.write(0..10, &mut &b"0123456789"[..]),
        Op::Hole => sink()?.hole(0..10),
        Op::Landed => {
            let sink = sink()?;
            land(&*sink, &chunk, b"0123456789").map(drop)
        }
        Op::Reread => sink()?.reread().map(drop),
        Op::Commit => write(store, &entry, &spec, b"0123456789").map(drop),
        Op::Abort => sink()?.abort(),
    }
}

#[test]
fn a_flipped_bit_shows_wherever_bytes_pass() {
    let (memory, store) = with_files(&["a"]);
    let a = name("a");
    store.add(Rule::new(Op::Read, What::FlipBit));
    assert_eq!(ok(fetch(&store, &a)), b"1123456789");
    assert_eq!(ok(fetch(&store, &a)), b"0123456789");
    store.add(Rule::new(Op::ReadBack, What::FlipBit));
    assert_eq!(ok(read(&*ok(store.reopen(&a)), 0..10)), b"1123456789");
    store.add(Rule::new(Op::Write, What::FlipBit));
    let entry = file(a.clone(), 3);
    ok(write(&store, &entry, &spec(&entry, 10), b"abc"));
    assert_eq!(memory.get("a").as_deref(), Some(&b"`bc"[..]));
    store.add(Rule::new(Op::PutBundle, What::FlipBit).on("b"));
    let mut two = bundle(vec![(file(a.clone(), 3), b"abc".to_vec()), (file(name("b"), 3), b"abc".to_vec())], false);
    store.put_bundle(&mut two);
    assert_eq!((memory.get("a"), memory.get("b")), (Some(b"abc".to_vec()), Some(b"`bc".to_vec())));
    assert_eq!(two.data, b"abcabc", "the caller's bytes are as they were");
}

#[test]
fn short_reads_and_broken_writes_stop_half_way() {
    let (memory, store) = with_files(&["a"]);
    let a = name("a");
    store.add(Rule::new(Op::Read, What::StopShort));
    assert_eq!(ok(fetch(&store, &a)), b"01234", "an end where none should be");
    store.add(Rule::new(Op::Read, What::Fail(ErrorKind::Io, Remedy::None)));
    fails(fetch(&store, &a), &[ErrorKind::Io], &a);
    store.add(Rule::new(Op::Write, What::NoSpace));
    let entry = file(a.clone(), 10);
    fails(write(&store, &entry, &spec(&entry, 10), b"abcdefghij"), &[ErrorKind::NoSpace], &a);
    assert_eq!(memory.get("a").as_deref(), Some(&b"0123456789"[..]));
    store.add(Rule::new(Op::List, What::StopShort));
    let mut seen = 0;
    let outcome = store.list(&Dir::root(), &mut |_| {
        seen += 1;
        Flow::Go
    });
    fails(outcome, &[ErrorKind::Io], &name(""));
    assert_eq!(seen, 1);
}

#[test]
fn a_lost_answer_leaves_the_work_done() {
    let (memory, store) = with_files(&[]);
    store.add(Rule::new(Op::Commit, What::FailAfter(ErrorKind::Broken, Remedy::Reconnect)));
    let entry = file(name("a"), 3);
    fails(write(&store, &entry, &spec(&entry, 10), b"abc"), &[ErrorKind::Broken], &entry.name);
    assert_eq!(memory.get("a").as_deref(), Some(&b"abc"[..]));
}

#[test]
fn a_hung_call_goes_on_when_let_and_ends_when_cancelled() {
    let (_, store) = with_files(&["a"]);
    let cancel = Cancel::default();
    let gate = Gate::new(Duration::from_secs(60), cancel.clone());
    store.add(Rule::new(Op::Stat, What::Hang(gate.clone())));
    std::thread::scope(|scope| {
        let hung = scope.spawn(|| store.stat(&name("a"), MetaMask::NONE).map(|entry| entry.size));
        assert!(gate.wait_for(1));
        gate.open();
        assert_eq!(ok(hung.join().expect("it does not panic")), 10);
    });
    let closed = Gate::new(Duration::from_secs(60), cancel.clone());
    store.add(Rule::new(Op::StatMany, What::Hang(closed.clone())));
    std::thread::scope(|scope| {
        let hung = scope.spawn(|| store.stat_many(&Dir::root(), &[b"a"], MetaMask::NONE, false));
        assert!(closed.wait_for(1));
        cancel.set(Stop::Signal);
        let found = hung.join().expect("it does not panic");
        assert!(matches!(&found[..], [haul_core::store::Found::Failed(e)] if e.kind() == ErrorKind::Cancelled), "{found:?}");
    });
    assert_eq!((store.count(Op::Stat).most_at_once, store.count(Op::StatMany).names), (1, 1));
}
