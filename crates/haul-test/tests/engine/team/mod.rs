//! Several ranks that do one job: threads of this process, each with an engine, a tuner and opened stores of its own.

mod ends;
mod objects;
mod surveys;
mod trees;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use haul_core::engine::run;
use haul_core::event::Observer;
use haul_core::job::Job;
use haul_core::report::Report;
use haul_core::store::Store;
use haul_core::team::{Team, Transport, threads};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Diary, Run, bounded, content, job};

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

/// Whether a message to or from a rank passes, or is lost.
type Passes = Box<dyn Fn(u32, &[u8]) -> haul_core::Result<bool> + Send + Sync>;

/// A transport that loses messages.
struct Bent {
    inside: Arc<dyn Transport>,
    send: Passes,
    receive: Passes,
}

impl Transport for Bent {
    fn rank(&self) -> u32 {
        self.inside.rank()
    }
    fn ranks(&self) -> u32 {
        self.inside.ranks()
    }
    fn send(&self, to: u32, message: Vec<u8>) -> haul_core::Result<()> {
        if (self.send)(to, &message)? { self.inside.send(to, message) } else { Ok(()) }
    }
    fn receive(&self, wait: Duration) -> haul_core::Result<Option<(u32, Vec<u8>)>> {
        let Some((from, message)) = self.inside.receive(wait)? else { return Ok(None) };
        Ok((self.receive)(from, &message)?.then_some((from, message)))
    }
}

/// So many ranks, of which one has a transport that loses messages; none may be silent for more than two seconds.
fn bent(n: u32, rank: usize, send: Passes, receive: Passes) -> Vec<Team> {
    let mut teams: Vec<Team> = threads(n).into_iter().map(Team::new).collect();
    teams.iter_mut().for_each(|team| team.silence = Duration::from_secs(2));
    let inside = teams[rank].transport.clone();
    teams[rank].transport = Arc::new(Bent { inside, send, receive });
    teams
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
