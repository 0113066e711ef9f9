//! Surveys that several ranks do together: every entry once, one stage after the other in one session, and lost ranks named.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, MetaMask};
use haul_core::pool::{Pool, Session, Stage};
use haul_core::store::Store;
use haul_core::survey::{Descend, Piece, Survey, Visitor};
use haul_core::team::{Team, threads};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use super::{bent, slow, tree};
use crate::support::bounded;

/// Names that this rank has visited.
fn visit(store: &dyn Store, stage: Stage, top: bool, flush: &(dyn Fn(&[Vec<u8>]) + Sync)) -> haul_core::Result<BTreeSet<Vec<u8>>> {
    let (cancel, spill, names) = (Cancel::default(), std::env::temp_dir(), Mutex::new(BTreeSet::new()));
    let survey = Survey { store, threads: 2, want: MetaMask::NONE, cancel: &cancel, spill: &spill };
    let pool = Pool::new(2, &cancel, &spill, Some(stage));
    if top {
        pool.push([Piece::Dir(Dir::root())]);
    }
    let visit = |entry: &Entry| {
        assert!(names.lock().unwrap().insert(entry.name.path()), "{:?} twice", entry.name);
        Descend::Yes
    };
    let sent = Mutex::new(BTreeSet::new());
    let flush = || {
        let (names, mut sent) = (names.lock().unwrap(), sent.lock().unwrap());
        flush(&names.difference(&sent).cloned().collect::<Vec<_>>());
        sent.clone_from(&names);
    };
    survey.run_in(&pool, 16, Visitor { visit: &visit, failed: &|e, _| panic!("{e}") }, &flush)?;
    Ok(names.into_inner().unwrap())
}

/// What each rank has done in a session of so many stages.
fn session(teams: Vec<Team>, stages: usize, store: &Memory) -> Vec<haul_core::Result<Vec<BTreeSet<Vec<u8>>>>> {
    let stores: Vec<Arc<dyn Store>> = teams.iter().map(|_| slow(store)).collect();
    bounded(Duration::from_secs(100), move || {
        let runs = teams.into_iter().zip(stores).map(|(team, store)| {
            std::thread::spawn(move || {
                let leads = team.transport.rank() == 0;
                let session = Session::open(team).unwrap();
                let done = if leads {
                    (0..stages).map(|n| visit(&*store, session.stage(vec![n as u8], |_, _| true), true, &|_| ())).collect()
                } else {
                    let mut done = Vec::new();
                    loop {
                        match session.next() {
                            Ok(None) => break Ok(done),
                            Ok(Some((stage, words))) => {
                                assert_eq!(words, [done.len() as u8], "in their order");
                                match visit(&*store, stage, false, &|_| ()) {
                                    Ok(names) => done.push(names),
                                    Err(e) => break Err(e),
                                }
                            }
                            Err(e) => break Err(e),
                        }
                    }
                };
                session.close();
                done
            })
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

fn all(store: &Memory) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = store.paths().into_iter().map(|path| path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path)).collect();
    all.sort();
    all
}

#[test]
fn every_entry_is_visited_by_one_rank_in_each_stage_of_a_session() {
    let flat = Memory::new();
    (0..3000).for_each(|i| flat.put(format!("{i}"), b"x"));
    for (store, ranks, stages) in [
        (tree(), 1, 2),
        (tree(), 2, 20),
        (tree(), 5, 20),
        (flat.with(|caps| caps.attributes.lists = MetaMask::NONE), 3, 3),
        (Memory::new(), 4, 30),
    ] {
        let done = session(threads(ranks).into_iter().map(Team::new).collect(), stages, &store);
        let done: Vec<_> = done.into_iter().map(Result::unwrap).collect();
        for stage in 0..stages {
            let mut seen: Vec<_> = done.iter().flat_map(|rank| rank[stage].clone()).collect();
            seen.sort();
            assert_eq!(seen, all(&store), "{ranks} ranks, stage {stage}");
        }
        if ranks > 1 && all(&store).len() > 100 {
            let helped = done[1..].iter().filter(|rank| rank.iter().any(|names| !names.is_empty())).count();
            assert_eq!(helped as u32, ranks - 1, "all take part");
        }
    }
}

#[test]
fn results_of_all_are_there_when_a_stage_is_over() {
    let store = tree();
    let wanted = all(&store);
    for _ in 0..20 {
        let (mut ends, store) = (threads(2), slow(&store));
        let (follower, leader) = (Team::new(ends.pop().unwrap()), Team::new(ends.pop().unwrap()));
        let other = store.clone();
        let names = bounded(Duration::from_secs(60), move || {
            let follow = std::thread::spawn(move || {
                let session = Session::open(follower).unwrap();
                while let Some((stage, _)) = session.next().unwrap() {
                    let send = stage.results();
                    visit(&*other, stage, false, &|names| names.iter().for_each(|name| send(name.clone()))).unwrap();
                }
                session.close();
            });
            let session = Session::open(leader).unwrap();
            let results: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
            let of_others = results.clone();
            let stage = session.stage(Vec::new(), move |from, name| {
                of_others.lock().unwrap().push(name.to_vec());
                from == 1
            });
            let own = visit(&*store, stage, true, &|_| ()).unwrap();
            let mut names: Vec<_> = results.lock().unwrap().drain(..).chain(own).collect();
            session.close();
            follow.join().unwrap();
            names.sort();
            names
        });
        assert_eq!(names, wanted);
    }
}

#[test]
fn a_rank_that_does_not_respond_ends_the_session_and_is_named() {
    let teams = bent(3, 2, Box::new(|_, _| Ok(false)), Box::new(|_, _| Ok(false)));
    let done = session(teams, 1, &tree());
    for rank in [0, 1] {
        let reason = done[rank].as_ref().unwrap_err().reason();
        assert!(reason.contains("rank 2") && reason.contains("has not responded for 2 s"), "rank {rank}: {reason}");
    }
    assert!(done[2].as_ref().unwrap_err().reason().contains("rank 0 has not responded"));
}

#[test]
fn a_store_that_one_rank_cannot_open_is_left_to_the_others() {
    let (mut ends, store) = (threads(2), tree());
    let wanted = all(&store);
    let (follower, leader) = (Team::new(ends.pop().unwrap()), Team::new(ends.pop().unwrap()));
    let slow = Fault::new(store.again());
    slow.add(Rule::new(Op::List, What::Delay(Duration::from_millis(1))).always());
    let names = bounded(Duration::from_secs(60), move || {
        let follow = std::thread::spawn(move || {
            let session = Session::open(follower).unwrap();
            while let Some((stage, _)) = session.next().unwrap() {
                stage.out();
            }
            session.close();
        });
        let session = Session::open(leader).unwrap();
        let names = visit(&slow, session.stage(Vec::new(), |_, _| true), true, &|_| ()).unwrap();
        session.close();
        follow.join().unwrap();
        names
    });
    assert_eq!(names.into_iter().collect::<Vec<_>>(), wanted);
}
