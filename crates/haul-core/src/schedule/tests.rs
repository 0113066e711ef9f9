use super::*;
use crate::entry::{Dir, Entry, Kind, MetaMask, Name};

/// An engine that knows of nothing but directories.
struct Bare;

impl SmallWork for () {
    fn bytes(&self) -> u64 {
        0
    }
}

impl FileWork for () {
    fn chunks_left(&self) -> usize {
        0
    }

    fn wants_workers(&self) -> bool {
        false
    }

    fn lendable(&self) -> usize {
        0
    }

    fn work(&self) -> &Arc<DirWork> {
        unreachable!("there are no files")
    }
}

impl Kinds for Bare {
    type Name = ();
    type Effect = ();
    type Small = ();
    type File = ();
    type Check = ();
    type Reply = &'static str;
}

fn scheduler() -> (Scheduler<Bare>, Arc<DirWork>) {
    let sched = Scheduler::new(BundleLimit { bytes: 1, files: 1 }, 8, Path::new("/nonexistent"));
    let top = Arc::new(DirWork::top(0, Dir::root()));
    sched.feed(0);
    let Some(Task::Feed(0)) = sched.next(0) else { panic!("the root comes first") };
    sched.hold(&top);
    (sched, top)
}

#[test]
fn a_directory_is_done_when_the_last_reply_from_outside_is() {
    let (sched, top) = scheduler();
    let (a, b) = (sched.begin_outside(&top), sched.begin_outside(&top));
    sched.items_done(&top, 1);
    assert!(!sched.done(Lane::Walk), "two subtrees are out");
    assert!(!sched.standing().idle && !sched.standing().walked);

    assert!(sched.end_outside(b, "b"));
    assert!(!sched.end_outside(b, "b") && !sched.end_outside(77, "c"), "nobody waits for these");
    let Some(Task::Reply(work, "b")) = sched.next(0) else { panic!("a reply is a task") };
    sched.items_done(&work, 1);
    assert!(!sched.done(Lane::Other) && !sched.standing().idle);

    assert!(sched.end_outside(a, "a"));
    assert!(!sched.standing().idle, "its reply has not been dealt with");
    let Some(Task::Reply(work, "a")) = sched.next(0) else { panic!("a reply is a task") };
    assert!(Arc::ptr_eq(&work, &top));
    sched.items_done(&work, 1);
    assert!(!sched.done(Lane::Other) && sched.standing().walked);
    let Some(Task::Finish(ready)) = sched.next(0) else { panic!("now the directory is done") };
    assert!(ready.len() == 1 && Arc::ptr_eq(&ready[0], &top));
    assert!(sched.done(Lane::Other) && sched.standing().idle);
}

#[test]
fn workers_stay_while_something_is_outside() {
    let (sched, top) = scheduler();
    let lease = sched.begin_outside(&top);
    sched.items_done(&top, 1);
    sched.done(Lane::Walk);
    sched.last_feed();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut seen = Vec::new();
            while let Some(task) = sched.next(0) {
                let lane = task.lane();
                match task {
                    Task::Reply(work, reply) => {
                        seen.push(reply);
                        sched.items_done(&work, 1);
                    }
                    Task::Finish(_) => seen.push("finish"),
                    _ => panic!("nothing else was asked for"),
                }
                sched.done(lane);
            }
            seen
        });
        assert!(sched.end_outside(lease, "reply"));
        assert_eq!(worker.join().unwrap(), ["reply", "finish"]);
    });
}

fn below(top: &Arc<DirWork>, leaf: &[u8]) -> PendingDir {
    let entry = Entry::bare(Name::new(&top.dir, leaf), Kind::Dir);
    let (parent, differ) = (top.clone(), MetaMask::NONE);
    PendingDir { parent, entry, make: false, fresh: false, attributes: false, differ, closed: false }
}

#[test]
fn what_is_lent_is_one_open_item_for_each_directory_it_is_from() {
    let (sched, top) = scheduler();
    sched.push_names(&top, vec![(), (), ()]);
    let Some(Task::Look(_, names)) = sched.next(0) else { panic!("names come first") };
    let dirs = [b"a", b"b", b"c"].map(|leaf| below(&top, leaf)).into_iter().collect();
    sched.planned(&top, Planned { dirs, ..Planned::default() });
    assert_eq!(names.len(), 3);
    sched.items_done(&top, 1);
    sched.done(Lane::Walk);
    sched.done(Lane::Walk);
    let stock = sched.stock();
    assert_eq!((stock.dirs, stock.names, stock.dry), (3, 0, false));
    let lent = sched.lend(|stock| Portion { dirs: stock.dirs - 1, ..Portion::default() });
    let [(lease, Lent::Dirs(work, dirs))] = &lent[..] else { panic!("one directory, one lease") };
    assert!(Arc::ptr_eq(work, &top));
    assert_eq!(dirs.iter().map(|dir| &dir.entry.name.leaf[..]).collect::<Vec<_>>(), [b"a", b"b"], "the oldest first");

    let other: Scheduler<Bare> = Scheduler::new(BundleLimit { bytes: 1, files: 1 }, 8, Path::new("/nonexistent"));
    let mut stand_in = DirWork::top(0, Dir::root());
    stand_in.lease = Some(Lease { rank: 0, id: *lease });
    let stand_in = Arc::new(stand_in);
    other.adopt(&stand_in, vec![below(&stand_in, b"a"), below(&stand_in, b"b")], Vec::new(), None);
    for _ in 0..2 {
        let Some(Task::Make(dirs)) = other.next(0) else { panic!("directories were lent") };
        other.items_done(&stand_in, dirs.len());
        other.done(Lane::Walk);
    }
    let Some(Task::Finish(done)) = other.next(0) else { panic!("all of the lease is done") };
    assert_eq!(done[0].lease, Some(Lease { rank: 0, id: *lease }));

    let Some(Task::Make(left)) = sched.next(0) else { panic!("one is left here") };
    sched.items_done(&top, left.len());
    sched.done(Lane::Walk);
    assert!(!sched.standing().idle && sched.stock().dry);
    assert!(sched.end_outside(*lease, "done"));
    let Some(Task::Reply(work, _)) = sched.next(0) else { panic!("a reply is a task") };
    sched.items_done(&work, 1);
    sched.done(Lane::Other);
    assert!(matches!(sched.next(0), Some(Task::Finish(_))));
    assert!(!sched.done(Lane::Other) && !sched.standing().walked, "below those directories somebody is at work");
    assert!(sched.confirmed() && sched.standing().idle && sched.standing().walked);
}

/// A file of which any number of workers may take chunks.
struct Endless(Arc<DirWork>);

impl FileWork for Endless {
    fn chunks_left(&self) -> usize {
        1000
    }

    fn wants_workers(&self) -> bool {
        true
    }

    fn lendable(&self) -> usize {
        0
    }

    fn work(&self) -> &Arc<DirWork> {
        &self.0
    }
}

struct Large;

impl Kinds for Large {
    type Name = ();
    type Effect = ();
    type Small = ();
    type File = Endless;
    type Check = ();
    type Reply = ();
}

#[test]
fn a_worker_that_left_for_the_limits_sake_gets_nothing_until_others_have_ended() {
    let sched: Scheduler<Large> = Scheduler::new(BundleLimit { bytes: 1, files: 1 }, 4, Path::new("/nonexistent"));
    let batches = Batches { files: 1, names: 1, dirs: 1 };
    sched.share(&Arc::new(Endless(Arc::new(DirWork::top(0, Dir::root())))));
    for worker in 0..4 {
        assert!(matches!(sched.next(worker), Some(Task::File(_))));
    }
    sched.set_limits(2, batches);
    assert_eq!(sched.surplus(), 2);
    for _ in 0..2 {
        sched.done(Lane::Large);
    }
    assert_eq!(sched.surplus(), 0);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| sched.next(0).is_some());
        let began = std::time::Instant::now();
        while sched.lock().pool.sleeping == 0 && !first.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(60), "it neither waits nor has a task");
            std::thread::yield_now();
        }
        let waited = !first.is_finished();
        sched.done(Lane::Large);
        assert!(first.join().unwrap() && waited, "two were at work already");
    });
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| sched.next(1).is_some());
        sched.set_limits(3, batches);
        second.join().unwrap()
    });
    assert!(second, "a raised limit has room");
}
