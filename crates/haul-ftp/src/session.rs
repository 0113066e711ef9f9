//! A session with a server, logged in: a control connection and what is known of its state.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;

use super::control::Control;
use super::data::{Announced, Failed};
use super::features::Features;
use super::gsi::Guard;
use super::intake::Intake;
use super::reply::Reply;
use super::stream::Tls;
use super::stripes::Outlets;

/// Bytes of a listing: a hundred for each of some million names.
const LISTING_MOST: u64 = 1 << 30;

#[derive(Debug)]
pub struct Session {
    pub control: Control,
    pub features: Arc<Features>,
    pub tls: Option<Tls>,
    /// Of a grid's data connections.
    pub guard: Option<Arc<Guard>>,
    pub active: bool,
    /// Bytes of TCP buffers of data connections, where they are chosen.
    pub buffer: Option<u32>,
    pub wait: Duration,
    /// Agreed on ahead.
    pub announced: Option<Announced>,
    /// In extended block mode: the data connections to the server.
    pub blocks: Option<Outlets>,
    /// The same from the server.
    pub intake: Option<Intake>,
    /// In extended block mode, with ports of this machine that the server is to connect to: one, or one for each data node.
    pub offered: Option<Vec<TcpListener>>,
    /// The algorithm that was chosen for HASH.
    pub hash: Option<Algorithm>,
    /// A transfer is going on: nothing else can be asked.
    pub busy: bool,
}

impl Session {
    pub fn new(control: Control, features: Arc<Features>, tls: Option<Tls>, active: bool, wait: Duration) -> Session {
        Session {
            control,
            features,
            tls,
            guard: None,
            active,
            buffer: None,
            wait,
            announced: None,
            blocks: None,
            intake: None,
            offered: None,
            hash: None,
            busy: false,
        }
    }

    /// Whether another caller can go on with it.
    pub fn is_usable(&self) -> bool {
        // Servers refuse a data connection that does not resume the TLS session of its control connection.
        !self.busy && !self.control.is_over() && !self.tls.as_ref().is_some_and(|tls| tls.tickets.are_spent())
    }

    pub fn ask(&mut self, word: &str, argument: &[u8], op: &'static str) -> Result<Reply> {
        self.control.ask(word, argument, op)
    }

    /// One word with many arguments; one reply each.
    pub fn ask_each<'a>(&mut self, word: &str, arguments: impl IntoIterator<Item = &'a [u8]>, op: &'static str) -> Vec<Result<Reply>> {
        let arguments: Vec<&[u8]> = arguments.into_iter().collect();
        self.ask_words(&[word], &arguments, op).pop().unwrap_or_default()
    }

    /// Several words, each with all arguments, in one go; the replies to each word.
    pub fn ask_words(&mut self, words: &[&str], arguments: &[&[u8]], op: &'static str) -> Vec<Vec<Result<Reply>>> {
        let line = |(word, argument): (&&str, &&[u8])| self.control.command(word, argument);
        let commands: Vec<Result<Vec<u8>>> =
            words.iter().flat_map(|word| arguments.iter().map(move |argument| (word, argument))).map(line).collect();
        let sent: Vec<Vec<u8>> = commands.iter().filter_map(|command| command.as_ref().ok().cloned()).collect();
        let mut replies = self.control.ask_all(&sent, op).into_iter();
        let mut next =
            |command: Result<Vec<u8>>| command.and_then(|_| replies.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, op))));
        let mut answers = commands.into_iter();
        words.iter().map(|_| answers.by_ref().take(arguments.len()).map(&mut next).collect()).collect()
    }

    /// All that the server sends for a command: a listing.
    pub fn fetch(&mut self, word: &str, argument: &[u8], op: &'static str) -> Result<Vec<u8>, Failed> {
        let mut all = Vec::new();
        let read = self.begin(word, argument, op)?.take(LISTING_MOST).read_to_end(&mut all);
        read.map_err(|e| self.explain(e, op))?;
        if all.len() as u64 == LISTING_MOST {
            self.control.give_up();
            return Err(Error::new(ErrorKind::Limit, op).because("the server's list does not end").into());
        }
        let last = self.control.reply(op)?.done(op)?;
        // vsftpd's words. Others name the directory here, which may have any name.
        if last.says("failed to open directory") {
            return Err(Failed::Error(last.failure(op).kind_is(ErrorKind::Denied)));
        }
        Ok(all)
    }
}
