//! What kept a measurement from being faster. Pure.

use haul_ssh::agent::{Load, Streams};

use super::load::{share, ssh_processors};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The network, or buffers that let too few bytes be under way on it: no processor was busy.
    Network,
    ProcessorsHere,
    ProcessorsRemote,
    SshHere,
    SshRemote,
    /// A stream has one thread on each side that seals and opens.
    ThreadsHere,
    ThreadsRemote,
}

/// A share of a processor's time from which on it counts as used up.
const FULL: f64 = 0.9;
/// The share of all CPU time that haul and ssh must have used before the CPUs count as the limit: else other processes keep them
/// busy. The kernel's part of the work is in neither.
const OWN: f64 = 0.1;

impl Limit {
    /// In their order: as samples have it, and in sentences.
    const ALL: [(Limit, &str, &str); 7] = [
        (Limit::Network, "network", "the network (CPUs were idle)"),
        (Limit::ProcessorsHere, "processors-here", "the CPUs here, all busy (the network may carry more)"),
        (Limit::ProcessorsRemote, "processors-remote", "the CPUs of the remote host, all busy (the network may carry more)"),
        (Limit::SshHere, "ssh-here", "ssh here, which used one core fully"),
        (Limit::SshRemote, "ssh-remote", "the ssh server on the remote host, which used one core fully"),
        (Limit::ThreadsHere, "threads-here", "the one core here that each stream uses"),
        (Limit::ThreadsRemote, "threads-remote", "the one core of the remote host that each stream uses"),
    ];

    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub(crate) fn sentence(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    pub(crate) fn from_word(word: &str) -> Option<Limit> {
        Self::ALL.into_iter().find(|(_, name, _)| *name == word).map(|(limit, ..)| limit)
    }

    /// From the CPU time used: of the whole machine first, then of one ssh, then of the threads of the streams.
    pub fn of(here: &Load, there: Option<&Load>, streams: Streams) -> Limit {
        let idle = Load::default();
        let there = there.unwrap_or(&idle);
        let full = |load: &Load| {
            let own = (load.own + load.ssh).as_secs_f64() / load.all.as_secs_f64().max(1e-9);
            share(load).is_some_and(|share| share >= FULL) && own >= OWN
        };
        let threads = |load: &Load| load.own.as_secs_f64() / load.at.as_secs_f64().max(1e-9) / streams.links.max(1) as f64 >= FULL;
        match () {
            () if full(here) => Limit::ProcessorsHere,
            () if full(there) => Limit::ProcessorsRemote,
            () if !streams.direct && ssh_processors(here) >= FULL => Limit::SshHere,
            () if !streams.direct && ssh_processors(there) >= FULL => Limit::SshRemote,
            () if streams.direct && threads(here) => Limit::ThreadsHere,
            () if streams.direct && threads(there) => Limit::ThreadsRemote,
            () => Limit::Network,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_busiest_is_what_limits() {
        let second = Duration::from_secs(1);
        let idle = Load { at: second, busy: second / 10, all: second * 4, processors: 4, ..Load::default() };
        let full = Load { busy: second * 39 / 10, own: second, ..idle };
        let direct = Streams { links: 2, direct: true };
        let ssh = Streams { links: 2, direct: false };
        let of = |here: Load, there: Load, streams| Limit::of(&here, Some(&there), streams);
        assert_eq!(of(idle, idle, direct), Limit::Network);
        assert_eq!((of(full, idle, direct), of(idle, full, ssh)), (Limit::ProcessorsHere, Limit::ProcessorsRemote));
        // Others keep the machine busy.
        assert_eq!(of(Load { own: second / 10, ..full }, idle, direct), Limit::Network);
        let cipher = Load { ssh: second * 95 / 100, ..idle };
        assert_eq!(
            (of(cipher, idle, ssh), of(idle, cipher, ssh), of(cipher, cipher, direct)),
            (Limit::SshHere, Limit::SshRemote, Limit::Network)
        );
        let busy = Load { own: second * 19 / 10, ..idle };
        assert_eq!(
            (of(busy, idle, direct), of(idle, busy, direct), of(busy, busy, ssh)),
            (Limit::ThreadsHere, Limit::ThreadsRemote, Limit::Network)
        );
        for (limit, word, _) in Limit::ALL {
            assert_eq!((Limit::from_word(word), limit.word()), (Some(limit), word));
        }
    }
}
