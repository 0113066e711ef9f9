//! Logins beside the first, which sessions are spread over: one TCP connection carries at most its window in a round trip.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use haul_core::error::Result;
use haul_core::lock::lock;

use super::{Login, Master};
use crate::ssh::Target;

/// Logins where one connection is full: more of them share the processor that one cipher fills.
const LOGINS: usize = 4;

/// Further logins, which sessions are spread over.
#[derive(Debug, Default)]
pub(super) struct Further {
    logins: Vec<Arc<Login>>,
    /// No more are made.
    is_over: bool,
}

/// Whether the same login again would need no person: by its method, in one step, and not with a key that has to be touched.
fn is_without_questions(text: &str) -> bool {
    let method = text.lines().filter_map(|line| line.strip_prefix("Authenticated to ")?.split('"').nth(1)).next_back();
    let key = text.lines().filter_map(|line| line.strip_prefix("debug1: Server accepts key: ")).next_back().unwrap_or_default();
    let silent = ["publickey", "gssapi-with-mic", "gssapi-keyex", "hostbased", "none"];
    method.is_some_and(|method| silent.contains(&method))
        && !text.contains("partial success")
        && !key.split(' ').any(|word| word.ends_with("-SK") || word.ends_with("-SK-CERT"))
}

impl Login {
    /// One beside the first login to the same host.
    fn beside(&self) -> Result<Login> {
        let mut target = Target { logins: Some(1), ..self.target.clone() };
        target.options.insert(0, "BatchMode=yes".into());
        let mut login = Login::new(target)?;
        login.is_further = true;
        // ssh uses the same for it.
        login.used = Mutex::new(lock(&self.used).clone());
        login.enter().map(|_| login)
    }

    /// The login with the fewest sessions, if it is not this one. Further ones are made only where the user wants them or that gains, and never with a question. Counts the session.
    pub(super) fn another(&self) -> Option<Arc<Login>> {
        if self.is_further {
            return None;
        }
        let mine = self.sessions.load(Ordering::Relaxed);
        let mut further = lock(&self.further);
        if mine > 0 && !further.is_over && further.logins.len() + 1 < self.target.logins.unwrap_or(1) {
            match self.beside() {
                Ok(login) => further.logins.push(Arc::new(login)),
                // A person would have to answer.
                Err(_) => further.is_over = true,
            }
        }
        let sessions = |login: &Arc<Login>| login.sessions.load(Ordering::Relaxed);
        let least = further.logins.iter().min_by_key(|login| sessions(login)).filter(|login| sessions(login) < mine).cloned();
        // Before the next one chooses: several are begun at once.
        least.as_deref().unwrap_or(self).sessions.fetch_add(1, Ordering::Relaxed);
        least
    }

    /// Logs in a few times more, as one connection is full; how many of these logins there are. 0 where a question could be asked, or
    /// the host or the user allows no more.
    pub fn widen(&self) -> usize {
        let is_own = matches!(&*lock(&self.master), Some(Master::Own(_)));
        let mut further = lock(&self.further);
        let allowed = self.target.logins.is_none() && !self.is_further && is_own && is_without_questions(&self.messages.first());
        if !allowed || std::mem::replace(&mut further.is_over, true) {
            return 0;
        }
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..LOGINS).map(|_| scope.spawn(|| self.beside())).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()?.ok()).map(Arc::new).collect()
        });
        further.logins = made;
        further.logins.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_with_a_question_is_not_repeated() {
        let by = |method: &str| format!("Authenticated to h ([192.0.2.1]:22) using \"{method}\".\n");
        let key = |kind: &str| format!("debug1: Server accepts key: /home/me/.ssh/id {kind} SHA256:x agent\n");
        for (text, silent) in [
            (key("ED25519") + &by("publickey"), true),
            (by("gssapi-with-mic"), true),
            (key("ED25519-SK") + &by("publickey"), false),
            (key("ECDSA-SK-CERT") + &by("publickey"), false),
            (by("password"), false),
            (by("keyboard-interactive"), false),
            ("Authenticated using \"password\" with partial success.\n".to_string() + &by("publickey"), false),
            (String::new(), false),
        ] {
            assert_eq!(is_without_questions(&text), silent, "{text}");
        }
    }
}
