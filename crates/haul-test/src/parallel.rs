//! An SFTP server that does requests side by side, as those made with Go's pkg/sftp do: a WRITE is done last of all that is
//! under way, and a CLOSE waits for it. OpenSSH's sftp-server does the work.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::rogue::{Rogue, kind};

/// A WRITE waits for requests that overtake it until none has come for so long.
const IDLE: Duration = Duration::from_millis(20);

/// The server; its [`Rogue::command`] is for `-e`.
pub fn parallel() -> io::Result<Rogue> {
    Rogue::serving(|stream| {
        thread::spawn(move || serve(stream));
    })
}

/// Until either side leaves.
fn serve(stream: TcpStream) -> io::Result<()> {
    let mut server = Command::new("/usr/lib/openssh/sftp-server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut to), Some(mut from)) = (server.stdin.take(), server.stdout.take()) else { return Ok(()) };
    let mut answers = stream.try_clone()?;
    thread::spawn(move || io::copy(&mut from, &mut answers));
    let (send, requests) = channel();
    let mut asked = stream;
    thread::spawn(move || {
        while let Ok(request) = read(&mut asked) {
            if send.send(request).is_err() {
                break;
            }
        }
    });
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        let request = match requests.recv_timeout(IDLE) {
            Ok(request) if request.get(4) == Some(&kind::WRITE) => {
                held.push(request);
                continue;
            }
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let is_close = request.as_ref().is_none_or(|request| request.get(4) == Some(&kind::CLOSE));
        let writes = if is_close { std::mem::take(&mut held) } else { Vec::new() };
        for request in writes.into_iter().chain(request) {
            to.write_all(&request)?;
        }
        to.flush()?;
    }
    drop(to);
    server.wait().map(|_| ())
}

/// A request with its length in front.
fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = vec![0; 4];
    from.read_exact(&mut request)?;
    let length = u32::from_be_bytes([request[0], request[1], request[2], request[3]]) as usize;
    request.resize(4 + length, 0);
    from.read_exact(&mut request[4..])?;
    Ok(request)
}
