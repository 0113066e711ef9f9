//! This process as one of the ranks of a job: they meet, the first one opens the job, the others follow.
//!
//! ```text
//! every rank -> Hello -> rank 0 compares -> Question -> every rank looks -> Reply -> rank 0 compares -> Verdict
//! rank 0 resolves the transfer, takes the job's lock and journal -> Go -> the others resolve and join
//! engine
//! ```

mod meeting;
mod probe;
mod question;
mod sample;
pub mod shared;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::spec::{FilterRule, Input, Selection};
use haul_core::team::{Team, Transport};
use haul_run::allocation::tasks;
use haul_run::location::Location;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::flags::{Command, Invocation};

use crate::rank_lines::Lines;
use meeting::{Hello, SHARED, short};
use question::{Question, Reply, places};

/// How long ranks may take to start: programs are read from busy file systems.
const MEET: Duration = Duration::from_secs(120);

/// How long the first rank may take to open the places: lists may be read first, and hosts log in.
const OPEN: Duration = Duration::from_secs(1800);

/// The ranks of a job, of which this process is one.
pub struct Ranks {
    transport: Arc<Held>,
    lines: Arc<Lines>,
    node: String,
    /// The others know whether to go on.
    told: AtomicBool,
}

/// What the first rank says when all have met, and when it has opened the job.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Word {
    Look(Question),
    Go {
        journal: bool,
    },
    /// The first rank has said why.
    Leave,
}

impl Ranks {
    /// # Errors
    /// `Usage` if this rank is alone though several tasks were started: each would do all of the work.
    pub fn new(transport: Arc<dyn Transport>, library: &str) -> Result<Ranks> {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let ranks = transport.ranks();
        if let Some(tasks) = tasks::read(&|name| std::env::var(name).ok()).filter(|tasks| ranks == 1 && tasks.count > 1) {
            let reason = format!("{} has started {} tasks, but {library} sees one rank", tasks.by, tasks.count);
            let hint = "start it with the mpirun of that MPI, or with srun --mpi=pmix (srun --mpi=list shows what there is)";
            return Err(Error::new(ErrorKind::Usage, "start MPI").because(reason).hint(hint));
        }
        let lines = Lines::new(transport);
        let transport = Arc::new(Held { inner: lines.clone(), early: Mutex::default() });
        Ok(Ranks { transport, lines, node, told: AtomicBool::new(false) })
    }

    pub fn leads(&self) -> bool {
        self.transport.rank() == 0
    }

    pub fn are_several(&self) -> bool {
        self.transport.ranks() > 1
    }

    pub fn rank(&self) -> u32 {
        self.transport.rank()
    }

    /// `rank 3 on n04`
    pub fn title(&self) -> String {
        format!("rank {} on {}", self.rank(), self.node)
    }

    pub fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    pub fn team(&self) -> Team {
        let mut team = Team::new(self.transport.clone());
        // For tests, which cannot wait as long.
        if let Some(seconds) = std::env::var("HAUL_TEST_SILENCE").ok().and_then(|seconds| seconds.parse().ok()) {
            team.silence = Duration::from_secs(seconds);
        }
        team
    }

    /// All ranks compare what they are and see. `false` for a rank that is to leave, as the first one has said why.
    ///
    /// # Errors
    /// At the first rank: what differs, between whom.
    pub fn meet(&self, invocation: &Invocation) -> Result<bool> {
        let (sources, destination) = places(&invocation.command);
        let hello = self.hello(invocation, meeting::look(sources, destination));
        if self.leads() {
            let met = self.compare(hello, &invocation.command);
            self.tell(if met.is_ok() { &Word::Go { journal: false } } else { &Word::Leave })?;
            return met.map(|()| true);
        }
        self.transport.send(0, encoded(&hello)?)?;
        match self.word(MEET)? {
            Word::Look(question) => {
                let (reply, _made) = question.answer(self.rank());
                self.transport.send(0, encoded(&reply)?)?;
                Ok(self.word(MEET)? != Word::Leave)
            }
            word => Ok(word != Word::Leave),
        }
    }

    /// At the first rank: whether all are one program with one command line, and see the same places.
    fn compare(&self, hello: Hello, command: &Command) -> Result<()> {
        let refused = |reason: String, hint: &str| Err(Error::new(ErrorKind::Usage, "start").because(reason).hint(hint.to_string()));
        let hellos = self.gather(hello)?;
        if let Some((reason, hint)) = meeting::conflict(&hellos) {
            return refused(reason, hint);
        }
        let (question, _made) = Question::new(command);
        let word = Word::Look(question);
        self.tell(&word)?;
        let Word::Look(question) = word else { return Ok(()) };
        let title = |rank| hellos.get(&rank).map(|hello| hello.title(rank)).unwrap_or_default();
        let replies = self.gather(Reply::default())?;
        let conflict = replies.iter().skip(1).find_map(|(rank, reply)| question.conflict(*rank, reply, title));
        conflict.map_or(Ok(()), |reason| refused(reason, SHARED))
    }

    fn hello(&self, invocation: &Invocation, seen: Vec<meeting::Seen>) -> Hello {
        let directory = std::env::current_dir().map(|directory| directory.into_os_string()).unwrap_or_default();
        let words = invocation.global.argv.iter().skip(1).chain([&directory]).map(|word| [word.as_encoded_bytes(), b"\0"].concat());
        Hello {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            build: std::fs::read("/proc/self/exe").map(|program| short(&program)).unwrap_or_default(),
            command: short(&words.collect::<Vec<_>>().concat()),
            seen,
        }
    }

    fn gather<T: DeserializeOwned>(&self, own: T) -> Result<BTreeMap<u32, T>> {
        let mut hellos = BTreeMap::from([(0, own)]);
        let until = Instant::now() + MEET;
        while hellos.len() < self.transport.ranks() as usize {
            let Some((from, message)) = self.transport.receive(until.saturating_duration_since(Instant::now()))? else {
                let missing: Vec<String> =
                    (0..self.transport.ranks()).filter(|rank| !hellos.contains_key(rank)).take(5).map(|rank| rank.to_string()).collect();
                self.transport.hurry();
                let reason = format!("not heard within {} s: rank {}", MEET.as_secs(), missing.join(", "));
                return Err(Error::new(ErrorKind::TimedOut, "start").because(reason));
            };
            hellos.insert(from, decoded(&message)?);
        }
        Ok(hellos)
    }

    /// Before this rank opens anything: another one than the first waits until that has. Whether there is a journal, then.
    ///
    /// # Errors
    /// `Cancelled` for a rank that is to leave.
    pub fn wait(&self) -> Result<bool> {
        match self.word(OPEN)? {
            Word::Go { journal } => Ok(journal),
            Word::Leave | Word::Look(_) => Err(Error::new(ErrorKind::Cancelled, "start").because("the first rank has ended")),
        }
    }

    /// The first rank has opened the job: the others may.
    ///
    /// # Errors
    /// Of the transport.
    pub fn go(&self, journal: bool) -> Result<()> {
        self.told.store(true, Ordering::Relaxed);
        self.tell(&Word::Go { journal })
    }

    /// This rank begins with what needs no [`Ranks::go`].
    pub fn begun(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// The first rank has not got as far as [`Ranks::go`].
    pub fn dismiss(&self) {
        if self.leads() && !self.told.swap(true, Ordering::Relaxed) {
            let _ = self.tell(&Word::Leave); // what ended this rank is its error
        }
    }

    fn tell(&self, word: &Word) -> Result<()> {
        let message = encoded(word)?;
        (1..self.transport.ranks()).try_for_each(|rank| self.transport.send(rank, message.clone()))
    }

    fn word(&self, most: Duration) -> Result<Word> {
        let until = Instant::now() + most;
        loop {
            match self.transport.inner.receive(until.saturating_duration_since(Instant::now()))? {
                Some((0, message)) => return decoded(&message),
                // Another rank has been told to go before this one, and asks it for work already.
                Some(message) => self.transport.early().push_back(message),
                None => {
                    let reason = format!("rank 0 has not answered within {} s", most.as_secs());
                    return Err(Error::new(ErrorKind::TimedOut, "start").because(reason));
                }
            }
        }
    }
}

/// A transport with messages that came before their time.
struct Held {
    inner: Arc<Lines>,
    early: Mutex<VecDeque<(u32, Vec<u8>)>>,
}

impl Held {
    fn early(&self) -> MutexGuard<'_, VecDeque<(u32, Vec<u8>)>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Held {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }

    fn ranks(&self) -> u32 {
        self.inner.ranks()
    }

    fn send(&self, to: u32, message: Vec<u8>) -> Result<()> {
        self.inner.send(to, message)
    }

    fn hurry(&self) {
        self.inner.hurry();
    }

    fn receive(&self, wait: Duration) -> Result<Option<(u32, Vec<u8>)>> {
        let early = self.early().pop_front();
        if early.is_some() { Ok(early) } else { self.inner.receive(wait) }
    }
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::new(ErrorKind::Other, "start").because(e.to_string()))
}

/// Another version may have sent it.
fn decoded<T: DeserializeOwned>(message: &[u8]) -> Result<T> {
    serde_json::from_slice(message).map_err(|_| {
        let reason = "a rank speaks another protocol: the ranks run different versions of haul-mpi";
        Error::new(ErrorKind::Usage, "start").because(reason).hint("install the same haul-mpi on all nodes")
    })
}

/// This rank's part of a rate that holds for the job, where all ranks have the same.
pub fn share_limit(ranks: Option<&Ranks>, rate: Option<u64>) -> Option<u64> {
    rate.map(|rate| (rate / ranks.map_or(1, |ranks| u64::from(ranks.transport.ranks()))).max(1))
}

/// Rules that all ranks need are read from standard input. Names of `--files-from` only the first one needs.
fn reads_stdin(selection: &Selection) -> bool {
    let inputs = selection.filters.iter().filter_map(|rule| match rule {
        FilterRule::IncludeFrom(input) | FilterRule::ExcludeFrom(input) | FilterRule::RulesFrom(input) => Some(input),
        FilterRule::Include(_) | FilterRule::Exclude(_) => None,
    });
    inputs.into_iter().any(|input| matches!(input, Input::Stdin))
}

/// The addresses of the sources are read from standard input.
fn from_stdin(selection: &Selection) -> bool {
    matches!(selection.files_from, Some(Input::Stdin))
}

/// What ranks cannot do together, and why.
pub fn refused(command: &Command) -> Option<Error> {
    let refuse = |reason: &str, hint: &str| Some(Error::new(ErrorKind::Usage, "start").because(reason.to_string()).hint(hint.to_string()));
    let not_all = || refuse("standard input reaches the first rank only", "write the list to a file that all nodes see");
    let streams = |locations: &[Location]| locations.iter().any(|location| location.scheme == haul_core::place::Scheme::STDIO);
    match command {
        Command::Copy(flags) if flags.list_only => refuse("--list-only is for one process", "use haul"),
        Command::Copy(flags) if streams(&flags.spec.sources) || streams(std::slice::from_ref(&flags.spec.destination)) => {
            refuse("a stream cannot be shared", "use haul")
        }
        Command::Copy(flags) if flags.spec.sources.is_empty() && from_stdin(&flags.spec.selection) => not_all(),
        Command::Copy(flags) if reads_stdin(&flags.spec.selection) => not_all(),
        Command::Check(flags) if reads_stdin(&flags.spec.selection) => not_all(),
        Command::Du(flags) if reads_stdin(&flags.selection) => not_all(),
        Command::Sum(flags) if reads_stdin(&flags.selection) => not_all(),
        Command::Rm(flags) if reads_stdin(&flags.selection) => not_all(),
        Command::Copy(_) => None,
        Command::Check(_) | Command::Du(_) | Command::Sum(_) | Command::Rm(_) => None,
        _ => refuse("several ranks do cp, sync, mv, check, sum, du and rm together", "use haul for other commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_ask_before_their_time_are_heard_later() {
        let ranks: Vec<Ranks> =
            haul_core::team::threads(3).into_iter().map(|transport| Ranks::new(transport, "threads").unwrap()).collect();
        ranks[2].transport.send(1, b"work?".to_vec()).unwrap();
        ranks[2].transport.send(1, b"work??".to_vec()).unwrap();
        ranks[0].go(true).unwrap();
        assert!(ranks[1].wait().unwrap());
        ranks[0].transport.send(1, b"later".to_vec()).unwrap();
        let next = || {
            ranks[1].team().transport.receive(Duration::ZERO).unwrap().map(|(from, message)| (from, String::from_utf8(message).unwrap()))
        };
        assert_eq!([next(), next()], [Some((2, "work?".into())), Some((2, "work??".into()))]);
        assert_eq!(next(), Some((0, "later".into())));
        assert_eq!(next(), None);
    }

    #[test]
    fn without_a_leader_the_others_leave() {
        let ranks: Vec<Ranks> =
            haul_core::team::threads(2).into_iter().map(|transport| Ranks::new(transport, "threads").unwrap()).collect();
        ranks[0].dismiss();
        ranks[0].dismiss();
        assert_eq!(ranks[1].wait().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(ranks[1].transport.receive(Duration::ZERO).unwrap(), None, "told once");
    }
}
