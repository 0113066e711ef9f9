use super::*;
use crate::entry::Dir;

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
    let sched = Scheduler::new(BundleLimit { bytes: 1, files: 1 }, 1, Path::new("/nonexistent"));
    let top = Arc::new(DirWork::top(0, Dir::root()));
    sched.feed(0);
    let Some(Task::Feed(0)) = sched.next(0) else { panic!("the root comes first") };
    sched.hold(&top);
    (sched, top)
}

#[test]
fn a_directory_is_done_when_the_last_reply_from_outside_is() {
    let (sched, top) = scheduler();
    sched.begin_outside(&top, b"a");
    sched.begin_outside(&top, b"a/b");
    sched.begin_outside(&top, b"a/b"); // the same once more
    sched.items_done(&top, 1);
    assert!(!sched.done(Lane::Walk), "two subtrees are out");
    assert!(!sched.standing().idle && !sched.standing().walked);

    assert!(sched.end_outside(b"a/b", "b"));
    assert!(!sched.end_outside(b"a/b", "b") && !sched.end_outside(b"c", "c"), "nobody waits for these");
    let Some(Task::Reply(work, "b")) = sched.next(0) else { panic!("a reply is a task") };
    sched.items_done(&work, 1);
    assert!(!sched.done(Lane::Other) && !sched.standing().idle);

    assert!(sched.end_outside(b"a", "a"));
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
    sched.begin_outside(&top, b"a");
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
        assert!(sched.end_outside(b"a", "reply"));
        assert_eq!(worker.join().unwrap(), ["reply", "finish"]);
    });
}
