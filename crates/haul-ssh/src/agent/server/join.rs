//! Further ssh sessions join the running agent: each passes its standard input and output on and waits.

use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::Agent;
use crate::agent::greeting::is_word;
use crate::private::{private_directory, unique};

/// Where others join: a socket in a directory that only this user can enter.
#[derive(Default)]
pub struct Joining {
    listener: Option<UnixListener>,
    path: Option<PathBuf>,
    /// The word by which they join; hexadecimal digits only.
    pub word: Option<String>,
}

fn socket_of(word: &str) -> Option<PathBuf> {
    is_word(word).then(private_directory).flatten().map(|place| place.join(format!("{AGENT}{word}")))
}

/// How the names of these sockets begin.
const AGENT: &str = "agent-";

/// A socket so old is not one whose agent has just bound it and does not listen yet.
const OLD: Duration = Duration::from_secs(60);

/// Removes sockets without a listener: an agent that was killed leaves its own.
fn sweep(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let is_agents = entry.file_name().as_encoded_bytes().starts_with(AGENT.as_bytes());
        let is_old = || entry.metadata().is_ok_and(|meta| meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > OLD)));
        if is_agents && is_old() && UnixStream::connect(entry.path()).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
            // Another process may have removed it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Joining {
    pub fn new() -> Joining {
        if let Some(place) = private_directory() {
            sweep(&place);
        }
        let word = format!("{:016x}", unique());
        let path = socket_of(&word);
        let listener = path.as_ref().and_then(|path| UnixListener::bind(path).ok());
        let word = listener.is_some().then_some(word);
        Joining { listener, path, word }
    }

    pub fn listen(&self, agent: &Arc<Agent>) {
        let Some(listener) = self.listener.as_ref().and_then(|listener| listener.try_clone().ok()) else { return };
        let agent = agent.clone();
        let take_in = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let agent = agent.clone();
                let serve = move || {
                    let Ok((input, output)) = receive(&stream) else { return };
                    // Its end is the end of the link: the process that waits at the other end of the socket ends, too.
                    let _ = agent.serve_fds(input, output);
                };
                // Without the thread there is one link less.
                let _ = std::thread::Builder::new().name("link".into()).spawn(serve);
            }
        };
        // Without the thread there is one link.
        let _ = std::thread::Builder::new().name("join".into()).spawn(take_in);
    }

    pub fn close(&self) {
        if let Some(path) = &self.path {
            // It may have been removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Passes standard input and output to the agent that the word names, and waits until it no longer uses them.
pub fn join(word: &str, input: &OwnedFd, output: &OwnedFd) -> Result<()> {
    let failed = |reason: &str| Error::new(ErrorKind::NotFound, "join").because(reason.to_string());
    let path = socket_of(word).ok_or_else(|| failed("there is no such agent"))?;
    let mut stream = UnixStream::connect(&path).map_err(|e| Error::io(e, "join"))?;
    let fds = [input.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(failed("two descriptors cannot be sent"));
    }
    sendmsg(&stream, &[std::io::IoSlice::new(b"j")], &mut control, SendFlags::empty()).map_err(|e| Error::io(e.into(), "join"))?;
    let mut end = [0];
    // The end, in whichever form.
    let _ = stream.read(&mut end);
    Ok(())
}

fn receive(stream: &UnixStream) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    if peer.uid != rustix::process::geteuid() {
        return Err(rustix::io::Errno::PERM);
    }
    // A bound for a peer that sends nothing.
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(stream, &mut [std::io::IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    match (fds.pop(), fds.pop()) {
        (Some(output), Some(input)) if fds.is_empty() => Ok((input, output)),
        _ => Err(rustix::io::Errno::INVAL),
    }
}
