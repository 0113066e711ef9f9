//! Names to addresses, kept for a while and used in turn.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Uri;
use ureq::Error;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// How long an answer serves. The service's own answers are good for some seconds.
const FRESH: Duration = Duration::from_secs(10);

/// How long an answer serves at most when no newer one is to be had.
const STALE: Duration = Duration::from_secs(300);

/// More names than this are not kept: a run speaks with a handful of hosts.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Addresses {
    system: DefaultResolver,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    found: Vec<SocketAddr>,
    /// When they were found, and when somebody last set out to find them.
    when: Instant,
    asked: Instant,
    /// How many requests were answered from here.
    turn: usize,
}

impl Resolver for Addresses {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return self.system.resolve(uri, config, timeout);
        };
        let port = authority.port_u16().unwrap_or(if scheme.as_str() == "https" { 443 } else { 80 });
        if let Ok(literal) = authority.host().trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(self.filled([SocketAddr::new(literal, port)]));
        }
        let key = format!("{}:{port}", authority.host());
        if let Some(found) = self.kept(&key, Instant::now()) {
            return Ok(self.filled(found));
        }
        match self.system.resolve(uri, config, timeout) {
            Ok(found) => {
                self.keep(key, found.iter().copied().collect(), Instant::now());
                Ok(found)
            }
            Err(error) => match self.stale(&key, Instant::now()) {
                Some(found) => Ok(self.filled(found)),
                None => Err(error),
            },
        }
    }
}

impl Addresses {
    fn filled(&self, found: impl IntoIterator<Item = SocketAddr>) -> ResolvedSocketAddrs {
        let mut filled = self.empty();
        for address in found.into_iter().take(16) {
            filled.push(address);
        }
        filled
    }

    /// The cached addresses if fresh. The first caller who finds them stale gets nothing and resolves again; the others use the
    /// old ones meanwhile.
    fn kept(&self, key: &str, now: Instant) -> Option<Vec<SocketAddr>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let one = known.get_mut(key)?;
        if now.duration_since(one.asked) >= FRESH {
            one.asked = now;
            return None;
        }
        one.turn = one.turn.wrapping_add(1);
        Some(in_turn(&one.found, one.turn))
    }

    fn stale(&self, key: &str, now: Instant) -> Option<Vec<SocketAddr>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|one| now.duration_since(one.when) < STALE).map(|one| one.found.clone())
    }

    fn keep(&self, key: String, found: Vec<SocketAddr>, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, Known { found, when: now, asked: now, turn: 0 });
    }
}

/// The addresses of the preferred family turned by so many places, then the rest: the system sorted the families by which of
/// them works here.
fn in_turn(found: &[SocketAddr], turn: usize) -> Vec<SocketAddr> {
    let family = found.iter().take_while(|address| address.is_ipv4() == found[0].is_ipv4()).count();
    let mut turned = found.to_vec();
    if family > 0 {
        turned[..family].rotate_left(turn % family);
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_preferred_family_is_used_in_turn() {
        let found = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "2.2.2.2:1"].map(address);
        assert_eq!(in_turn(&found, 2), found);
        assert_eq!(in_turn(&found, 1), ["[::2]:1", "[::1]:1", "1.1.1.1:1", "2.2.2.2:1"].map(address));
        assert_eq!(in_turn(&[], 3), []);
    }

    #[test]
    fn an_answer_serves_for_a_while_and_one_thread_asks_again() {
        let addresses = Addresses::default();
        let start = Instant::now();
        assert_eq!(addresses.kept("h:1", start), None);
        addresses.keep("h:1".into(), vec![address("1.1.1.1:1")], start);
        assert!(addresses.kept("h:1", start + FRESH / 2).is_some());
        assert_eq!(addresses.kept("h:1", start + FRESH), None, "the first looks anew");
        assert!(addresses.kept("h:1", start + FRESH).is_some(), "the others go on");
        assert!(addresses.stale("h:1", start + FRESH * 2).is_some());
        assert_eq!(addresses.stale("h:1", start + STALE), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let addresses = Addresses::default();
        let now = Instant::now();
        for n in 0..3 * MOST {
            addresses.keep(format!("h{n}:1"), Vec::new(), now);
        }
        assert!(addresses.known.lock().unwrap().len() <= MOST);
    }
}
